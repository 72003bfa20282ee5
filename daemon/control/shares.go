package control

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/fairness"
)

// FairShare is how the queue is ordered by what everybody has used.
type FairShare struct {
	// HalfLife is how long it takes until use counts for half as much.
	HalfLife time.Duration
	// ByCreator: use is that of those who create Jobs, not of namespaces.
	ByCreator bool
}

// accountOf returns whose use of the machine a pod is: empty if nobody asks.
func (f *FairShare) accountOf(p *corev1.Pod, of *jobRecord) string {
	switch {
	case f == nil:
		return ""
	case f.ByCreator && of != nil && of.creator != "":
		return "user " + of.creator
	}
	return "namespace " + p.Namespace // also where nobody knows who it was
}

// Shares returns what everybody has used, the one that comes first in front; nil if the queue is not ordered by that.
func (c *Control) Shares(ctx context.Context) (all []fairness.Account, err error) {
	if c.config.Fair == nil {
		return nil, nil
	}
	err = c.loop.Ask(ctx, func() { all = c.records.queue.capacity.Accounts(c.now()) })
	return all, err
}

func (c *Control) now() time.Time {
	if c.config.Clock != nil {
		return c.config.Clock()
	}
	return time.Now()
}
