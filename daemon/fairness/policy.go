package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// FairShare is how the queue is ordered by what everybody has used.
type FairShare struct {
	// HalfLife is how long it takes until use counts for half as much.
	HalfLife time.Duration
	// ByCreator: use is that of those who create Jobs, not of namespaces.
	ByCreator bool
}

// accountOf returns whose use of the machine a pod is: empty if nobody asks.
func (f *FairShare) accountOf(p *corev1.Pod, creator string) string {
	switch {
	case f == nil:
		return ""
	case f.ByCreator && creator != "":
		return "user " + creator
	}
	return "namespace " + p.Namespace // also where nobody knows who it was
}
