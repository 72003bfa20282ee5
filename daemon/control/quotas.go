package control

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/loop"
)

// waiting are the Jobs that ResourceQuotas have kept from creating pods, by namespace, in the order of their refusals. When a
// quota allows more, the first of them tries again, and the next one once it has got what it needs: otherwise all of them
// would be refused again for each pod that ends.
type waiting map[string]*loop.Queue[types.UID]

// Push adds a Job at the end, unless it waits already.
func (w waiting) Push(namespace string, uid types.UID) {
	if w[namespace] == nil {
		w[namespace] = loop.NewQueue[types.UID]()
	}
	w[namespace].Add(uid)
}

// Pop removes the first Job and returns it; empty if none waits.
func (w waiting) Pop(namespace string) (uid types.UID) {
	all := w[namespace]
	if all == nil {
		return ""
	}
	uid, _ = all.Take()
	if all.Len() == 0 {
		delete(w, namespace)
	}
	return uid
}

var _ loop.QuotaFollower = &jobs{}

// QuotaFreed implements loop.QuotaFollower.
func (c *jobs) QuotaFreed(_ *loop.Pass, namespace string) { c.retryRefused(namespace) }

// retryRefused lets the Job that has waited longest for a quota try again.
func (c *jobs) retryRefused(namespace string) {
	for uid := c.refusedByQuota.Pop(namespace); uid != ""; uid = c.refusedByQuota.Pop(namespace) {
		if rec := c.known[uid]; rec != nil {
			rec.RetryCreation()
			c.enqueue(uid)
			return
		}
	}
}
