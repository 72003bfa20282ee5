package control

import (
	"fmt"
	goruntime "runtime"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/kubelet"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
)

// What the node itself has to say about pods that are bound to it, as a kubelet has: it takes them, or they fail.

// arrive takes in a pod whose manifest names a node. It is bound at once if that is this node: nobody looks for room
// for it, so the node may have to refuse it.
func (a *admission) arrive(p *loop.Pass, uid types.UID) error {
	key, obj, err := a.pods.get(p, uid)
	if err != nil || obj == nil || !awaitsNode(obj) || obj.DeletionTimestamp != nil {
		return err
	}
	if clusters.Shown(obj) {
		return nil // its cluster says what becomes of it
	}
	if obj.Spec.NodeName != a.name {
		return a.unschedulable(p, key, obj, fmt.Sprintf("0/1 nodes are available: 1 node(s) didn't match the requested "+
			"node name. The pod is for the node %s, and jobd's only node is %s.", obj.Spec.NodeName, a.name))
	}
	if why, waits := a.claims.Waits(key); waits { // another pod took the claim in the same pass, or it is being deleted
		a.hold(uid, why)
		return nil
	}
	if a.heldByWindow(p, uid) {
		return nil
	}
	refusal := a.refuses(obj) // of these a kubelet thinks first
	if refusal != nil {
		return a.take(p, key, obj, refusal)
	}
	request := a.pods.known[uid].request
	if refusal = a.capacity.Refuses(request); refusal == nil || !request.Critical() {
		return a.take(p, key, obj, refusal)
	}
	victims, refusal := a.capacity.MakeRoom(request)
	if refusal != nil {
		return a.take(p, key, obj, refusal)
	}
	for _, victim := range victims {
		if err := a.evict(p, victim); err != nil {
			return err
		}
	}
	if !slices.Contains(a.expected, uid) {
		a.expected = append(a.expected, uid)
	}
	return nil
}

// evict ends a pod that makes room for a critical one. Like a kubelet it does not delete the pod, which fails.
func (a *admission) evict(p *loop.Pass, uid types.UID) error {
	key, obj, err := a.pods.get(p, uid)
	if err != nil || obj == nil {
		return err
	}
	if err := a.observe(p, obj, duty.Observation{What: duty.Preempted}); err != nil {
		return err
	}
	p.Pods.Changed(key, obj)
	return a.changes.Touch(p, key, obj)
}

// observe folds into a pod's status what the node itself has decided.
func (a *admission) observe(p *loop.Pass, obj *corev1.Pod, o duty.Observation) error {
	o.UID, o.At = obj.UID, p.Now
	result := pod.Apply(obj, &a.pods.known[obj.UID].issued, []duty.Observation{o}, p.Now)
	for _, e := range result.Events {
		about := objects.PodReference(obj)
		about.FieldPath = e.FieldPath
		if err := p.Event(about, events.Kubelet, e.Type, e.Reason, e.Message); err != nil {
			return err
		}
	}
	return nil
}

// take lets the node take a pod that has been bound to it, or fail it.
func (a *admission) take(p *loop.Pass, key string, obj *corev1.Pod, refusal *kubelet.Refusal) error {
	obj.Status.NominatedNodeName = ""
	forgetContainers(&obj.Status)
	obj.Status.HostIP = a.ip
	obj.Status.HostIPs = []corev1.HostIP{{IP: a.ip}}
	a.place(obj)
	setPodCondition(obj, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, p.Now)
	p.Pods.Changed(key, obj)
	for _, f := range a.followers.Pods() {
		f.PodBound(key, obj, p.Now)
	}
	if refusal != nil {
		o := duty.Observation{What: duty.Rejected, Reason: refusal.Reason, Message: refusal.Message}
		if err := a.observe(p, obj, o); err != nil {
			return err
		}
	}
	return a.changes.Touch(p, key, obj)
}

// forgetContainers drops what clients have written of the containers of a pod that was on no node: none was started.
func forgetContainers(s *corev1.PodStatus) {
	s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses = nil, nil, nil
}

// place gives a pod the labels that say where the node is (KEP-4742). Like a cluster it replaces those that the pod has.
func (a *admission) place(obj *corev1.Pod) {
	for _, key := range [...]string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := a.capacity.Label(key); ok {
			metav1.SetMetaDataLabel(&obj.ObjectMeta, key, value)
		}
	}
}

// refuses returns why the node does not take a pod whatever else is there; nil if it does.
func (a *admission) refuses(obj *corev1.Pod) *kubelet.Refusal {
	if os, ok := obj.Labels[corev1.LabelOSStable]; ok && os != goruntime.GOOS {
		return &kubelet.Refusal{
			Reason:  "PodOSSelectorNodeLabelDoesNotMatch",
			Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
		}
	}
	if os := obj.Spec.OS; os != nil && string(os.Name) != goruntime.GOOS {
		return &kubelet.Refusal{
			Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS",
		}
	}
	if refusal := a.capacity.SharesTooMuch(obj); refusal != nil {
		return refusal
	}
	if err := a.sysctls.Check(obj); err != nil {
		return &kubelet.Refusal{Reason: "SysctlForbidden", Message: err.Error()}
	}
	return nil
}
