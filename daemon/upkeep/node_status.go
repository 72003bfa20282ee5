package upkeep

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/requests"
)

// complete makes a Node what it should be, and reports whether that has changed it. From then on pods may request what
// it has.
func (n *NodeObject) complete(shown *corev1.Node, now time.Time) (changed bool) {
	before := shown.DeepCopy()
	if shown.Labels == nil {
		shown.Labels = map[string]string{}
	}
	maps.Copy(shown.Labels, n.self.Labels)
	offered := n.devices()
	shown.Status = n.status(shown, offered, now)
	if shown.Annotations == nil {
		shown.Annotations = map[string]string{}
	}
	shown.Annotations[objects.DevicesAnnotation] = listed(offered)
	n.offer(shown.Status)
	return !equality.Semantic.DeepEqual(before, shown)
}

func listed(resources corev1.ResourceList) string {
	var names []string
	for name := range resources {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// status returns what the status of a Node should be. As a kubelet does, it keeps what others have written there:
// extended resources, which pods may request then, and conditions of other types. Of devices that are no longer offered
// there are none.
func (n *NodeObject) status(stored *corev1.Node, offered corev1.ResourceList, now time.Time) corev1.NodeStatus {
	status := *n.self.Status.DeepCopy()
	status.Images = stored.Status.Images // daemon/disk keeps them up to date
	status.Conditions = n.conditions(stored.Status.Conditions, now)

	devices, known := objects.Devices(stored)
	for name, amount := range stored.Status.Capacity {
		if _, own := status.Capacity[name]; own || !core.IsExtended(name) {
			continue
		}
		switch {
		case !known && !n.started:
			continue // an older jobd has written it, of which all such resources were devices
		case slices.Contains(devices, name):
			amount.Set(0)
		}
		setAmount(&status.Capacity, name, amount)
	}
	for name, amount := range offered {
		setAmount(&status.Capacity, name, amount)
	}
	for name, amount := range status.Capacity {
		if !core.IsExtended(name) {
			continue
		}
		if named, ok := status.Allocatable[name]; ok && named.Cmp(amount) < 0 {
			continue
		}
		setAmount(&status.Allocatable, name, amount)
	}
	return status
}

func setAmount(list *corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = amount
}

// pressures are the conditions that tell of a shortage.
var pressures = map[corev1.NodeConditionType]bool{corev1.NodeDiskPressure: true, corev1.NodeMemoryPressure: true}

// conditions returns the node's conditions. Others may change those of other types, and daemon/pressure keeps those of the disk and
// the memory up to date.
func (n *NodeObject) conditions(stored []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	all := slices.Clone(n.self.Status.Conditions)
	for i := range all {
		all[i].LastHeartbeatTime, all[i].LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	}
	for _, was := range stored {
		i := slices.IndexFunc(all, func(c corev1.NodeCondition) bool { return c.Type == was.Type })
		switch {
		case i < 0:
			all = append(all, was)
		case pressures[was.Type] && (n.started || was.Status == corev1.ConditionTrue):
			all[i] = was
		case was.Status == all[i].Status:
			all[i].LastTransitionTime = was.LastTransitionTime
			if n.started && was.Reason == all[i].Reason && was.Message == all[i].Message {
				all[i].LastHeartbeatTime = was.LastHeartbeatTime
			}
		}
	}
	return all
}

// offer lets pods request the extended resources of a status, in addition to what the machine itself has.
func (n *NodeObject) offer(status corev1.NodeStatus) {
	if n.allocatable == nil {
		return
	}
	all := maps.Clone(n.allocatable)
	for name, amount := range status.Allocatable {
		if core.IsExtended(name) {
			all[name] = requests.Amounts(corev1.ResourceList{name: amount})[name]
		}
	}
	n.capacity.Offer(all)
}
