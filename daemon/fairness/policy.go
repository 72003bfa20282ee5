package fairness

import "time"

// Policy is how those who wait are ordered by what everybody has used.
type Policy struct {
	// HalfLife is how long it takes until use counts for half as much.
	HalfLife time.Duration
	// ByCreator: use is that of those who create Jobs, not of namespaces.
	ByCreator bool
}

// AccountOf returns whose use of the machine a pod of a namespace is: empty if nobody asks.
func (p *Policy) AccountOf(namespace, creator string) string {
	switch {
	case p == nil:
		return ""
	case p.ByCreator && creator != "":
		return "user " + creator
	}
	return "namespace " + namespace // also where nobody knows who it was
}
