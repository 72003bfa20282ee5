// Package tend looks after pods while they run: it keeps their files up to date and their tokens valid, has what is measured that has
// a limit on the disk, and ends pods that do not tolerate a taint of the node.
//
// Each file is one loop.Controller. Changes of the store, of pods and times come in. What goes out are actions for the workers of pods,
// and pods that are to end (Pods). What becomes of a pod is decided elsewhere.
package tend

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/loop"
)

// Pods are those that still wait, run or have to be counted.
type Pods interface {
	// Keys yields the keys of all.
	Keys() iter.Seq[string]
	// Has reports whether a pod is one of them.
	Has(uid types.UID) bool
	// Retry tries at once what has failed for a pod.
	Retry(uid types.UID)
	// Do hands an action to the workers of a pod once the pass is durable.
	Do(p *loop.Pass, obj *corev1.Pod, action duty.Action)
	// Disrupt ends a pod for another reason than its own failure.
	Disrupt(p *loop.Pass, key string, obj *corev1.Pod, reason, message string) error
	// Renewal is where the time is kept at which the tokens of a pod are to be looked at, see TokenRenewal; nil if it is none of them.
	Renewal(uid types.UID) *uint32
	// Renewals yields the keys of all with that.
	Renewals() iter.Seq2[string, *uint32]
}
