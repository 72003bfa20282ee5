package control

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// waitingPods are the pods as the concern of claims sees them. It implements volumes.Pods.
type waitingPods struct {
	pods  *podRecords
	queue *queue
}

// Known implements volumes.Pods.
func (w waitingPods) Known(uid types.UID) bool { return w.pods.known[uid] != nil }

// Held implements volumes.Pods.
func (w waitingPods) Held(uid types.UID) (why string, held bool) {
	why, held = w.queue.held[uid]
	return why, held
}

// Retry implements volumes.Pods.
func (w waitingPods) Retry(uid types.UID) {
	w.pods.retry(w.pods.known[uid])
}

// Readmit implements volumes.Pods.
func (w waitingPods) Readmit(p *corev1.Pod) { w.queue.setPod(w.pods.known[p.UID], p, true) }
