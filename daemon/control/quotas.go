package control

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiadmission "k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/quota"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
)

// quotaRetry is how long a CronJob waits whose Job a ResourceQuota has refused.
const quotaRetry = 10 * time.Second

// quotaRefusal returns why ResourceQuotas refuse an object that the loop would create, nil if they do not. One that is not
// refused counts for what else the pass creates.
func quotaRefusal(p *loop.Pass, resource string, obj objects.Object) (refusal, err error) {
	quotas, err := p.Quotas(obj.GetNamespace())
	if err != nil || len(*quotas) == 0 {
		return nil, err
	}
	of := schema.ParseGroupResource(resource)
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	used, refusal := quota.Check(*quotas, apiadmission.NewAttributesRecord(obj, nil, kinds[0], obj.GetNamespace(), obj.GetName(),
		of.WithVersion(kinds[0].Version), "", apiadmission.Create, nil, false, nil))
	if refusal == nil {
		*quotas = used
	}
	return refusal, nil
}

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
