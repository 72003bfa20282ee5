package control

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/loop"
)

// tendedPods implements tend.Pods.
type tendedPods struct {
	*podRecords
	disrupter
}

// Keys implements tend.Pods.
func (t tendedPods) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, rec := range t.known {
			if !yield(rec.key) {
				return
			}
		}
	}
}

// Has implements tend.Pods.
func (t tendedPods) Has(uid types.UID) bool { return t.known[uid] != nil }

// Retry implements tend.Pods.
func (t tendedPods) Retry(uid types.UID) { t.retry(t.known[uid]) }

// Do implements tend.Pods.
func (t tendedPods) Do(p *loop.Pass, obj *corev1.Pod, action duty.Action) { t.do(p, obj, action) }

// Renewal implements tend.Pods.
func (t tendedPods) Renewal(uid types.UID) *uint32 {
	if rec := t.known[uid]; rec != nil {
		return &rec.renewal
	}
	return nil
}

// Renewals implements tend.Pods.
func (t tendedPods) Renewals() iter.Seq2[string, *uint32] {
	return func(yield func(string, *uint32) bool) {
		for _, rec := range t.known {
			if !yield(rec.key, &rec.renewal) {
				return
			}
		}
	}
}
