package cards

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
)

const (
	gpu   corev1.ResourceName = "nvidia.com/gpu"
	share corev1.ResourceName = "nvidia.com/gpu.shared"
)

// asks returns what a row of pods asks for.
func asks(all ...requests.Resources) func(func(requests.Resources) bool) {
	return slices.Values(all)
}

func TestOfTwoCardsThatAreSharedNoneIsFree(t *testing.T) {
	b := &Board{}
	for _, uid := range []types.UID{"a", "b"} {
		b.Bound(uid, requests.Resources{share: 1})
	}
	b.Set(map[corev1.ResourceName]Devices{gpu: {
		Shared: share, Replicas: 4, All: []Device{{Pods: map[types.UID]int64{"a": 1}}, {Pods: map[types.UID]int64{"b": 1}}},
	}})
	whole, part := requests.Resources{gpu: 1}, requests.Resources{share: 1}
	if b.Placeable(asks(whole)) || !b.Placeable(asks(part, part)) || len(b.Scattered(whole)) != 1 {
		t.Error("a whole card is found")
	}
	if !b.Gone("a") || !b.Placeable(asks(whole)) {
		t.Error("the card of a pod that has ended is not found")
	}
}

func TestWhatOthersUseIsNotOffered(t *testing.T) {
	b := &Board{}
	b.Set(map[corev1.ResourceName]Devices{gpu: {All: []Device{{Used: true}, {Used: true, Pods: map[types.UID]int64{"a": 0}}, {}}}})
	offered := requests.Resources{gpu: 3, "cpu": 1000}
	if got := b.Offer(offered); got[gpu] != 1 || offered[gpu] != 3 || got["cpu"] != 1000 {
		t.Errorf("%v", got)
	}
	if b.Bound("c", requests.Resources{"cpu": 1}) || !b.Bound("a", requests.Resources{gpu: 1}) {
		t.Error("what is offered does not change with the pods that have devices, or with others")
	}
	if got := b.Offer(offered); got[gpu] != 2 {
		t.Errorf("%v: a pod keeps what it has", got)
	}
}
