package pressure

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is how a Node shows that little is left of a resource: a condition, with a kubelet's words, and the taint that keeps
// new pods away.
type Condition struct {
	Type  corev1.NodeConditionType
	Taint string
	// Short and Fine are what a kubelet's events say when it is so and when it is not.
	Short, Fine string
	// IsShort and IsFine are reason and message of the condition.
	IsShort, IsFine [2]string
}

// Disk and Memory are the conditions that a kubelet has for them.
var (
	Disk = Condition{
		Type: corev1.NodeDiskPressure, Taint: corev1.TaintNodeDiskPressure,
		Short: "NodeHasDiskPressure", Fine: "NodeHasNoDiskPressure",
		IsShort: [2]string{"KubeletHasDiskPressure", "kubelet has disk pressure"},
		IsFine:  [2]string{"KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
	}
	Memory = Condition{
		Type: corev1.NodeMemoryPressure, Taint: corev1.TaintNodeMemoryPressure,
		Short: "NodeHasInsufficientMemory", Fine: "NodeHasSufficientMemory",
		IsShort: [2]string{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
		IsFine:  [2]string{"KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
	}
)

// shown reports whether a Node says that little is left.
func (c *Condition) shown(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(of corev1.NodeCondition) bool {
		return of.Type == c.Type && of.Status == corev1.ConditionTrue
	})
}

// show updates the condition of a Node and the taint that belongs to it.
func (c *Condition) show(n *corev1.Node, on bool, now time.Time) {
	status, says := corev1.ConditionFalse, c.IsFine
	if on {
		status, says = corev1.ConditionTrue, c.IsShort
	}
	at := metav1.NewTime(now)
	for i := range n.Status.Conditions {
		if of := &n.Status.Conditions[i]; of.Type == c.Type && of.Status != status {
			*of = corev1.NodeCondition{
				Type: c.Type, Status: status, Reason: says[0], Message: says[1], LastHeartbeatTime: at, LastTransitionTime: at,
			}
		}
	}
	isTaint := func(t corev1.Taint) bool { return t.Key == c.Taint && t.Effect == corev1.TaintEffectNoSchedule }
	switch tainted := slices.ContainsFunc(n.Spec.Taints, isTaint); {
	case on && !tainted:
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: c.Taint, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &at})
	case !on && tainted:
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isTaint)
	}
}
