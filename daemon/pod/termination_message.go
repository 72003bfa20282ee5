package pod

// Limits of termination messages, as in clusters.
const (
	maxTerminationMessage  = 4096
	maxTerminationMessages = 12 << 10 // of all containers of a pod together
)

// fit truncates a termination message to what each container of a pod of so many may show.
func fit(message string, containers int) string {
	limit := min(maxTerminationMessage, maxTerminationMessages/max(containers, 1))
	if len(message) <= limit {
		return message
	}
	return message[:limit]
}
