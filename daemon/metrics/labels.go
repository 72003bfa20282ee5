package metrics

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
)

// other is the value of a label that counts all that has no series of its own.
const other = "other"

// Labels whose values clients choose would have any number of series, each of which is kept for ever, and may be no text at all.

// reasons are those of conditions that end Jobs. Clients may write the status of a Job, and any reason.
var reasons = []string{
	batchv1.JobReasonPodFailurePolicy, batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded,
	batchv1.JobReasonMaxFailedIndexesExceeded, batchv1.JobReasonFailedIndexes, batchv1.JobReasonSuccessPolicy,
	batchv1.JobReasonCompletionsReached, "",
}

func knownReason(reason string) string {
	if slices.Contains(reasons, reason) {
		return reason
	}
	return other
}

// maxManagers is how many of the managers of Jobs that are managed elsewhere have a series of their own: the first ones.
const maxManagers = 100

// maxSets is how many JobSets have series of their own, by name: the first ones, and more as namespaces go.
const maxSets = 1000

// setNames are the names of JobSets that have a series, with their namespaces.
type setNames map[[2]string]bool

// known returns the labels that count a JobSet.
func (s *setNames) known(name, namespace string) (string, string) {
	of := [2]string{name, namespace}
	if !(*s)[of] {
		if len(*s) >= maxSets {
			return other, other
		}
		if *s == nil {
			*s = setNames{}
		}
		(*s)[of] = true
	}
	return name, namespace
}

type managers []string

func (m *managers) known(manager string) string {
	if !slices.Contains(*m, manager) {
		if len(*m) >= maxManagers {
			return other
		}
		*m = append(*m, manager)
	}
	return manager
}
