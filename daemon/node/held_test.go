package node

import (
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/daemon/requests"
)

func heldPods(cpu string, count int) []Expected {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}}}
	return []Expected{ExpectedOf(template, count, time.Unix(1000, 0))}
}

// Whatever is held, handed over, claimed and released: what is on the node and what is held is never more than there is, and once nothing is
// held the whole node is there again.
func TestHoldsNeverExceedTheNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := New(100, requests.Resources{corev1.ResourceCPU: 4000})
		count := map[string]int{} // held, by key
		bound, pods := 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "key"))
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				want := rapid.IntRange(0, 3).Draw(t, "count")
				if ask := heldPods("1", want); n.holds[key] == nil && n.Lacks(ask) == "" {
					n.Hold(key, ask)
					count[key] = want
				}
			case 1:
				n.Release(key)
				delete(count, key)
			case 2, 3: // a pod comes, for which room is held or not
				pods++
				pod := heldPods("1", 1)[0].Pod
				pod.UID = types.UID(fmt.Sprint("pod", pods))
				awaited := n.Arrive(key, pod)
				if awaited != (count[key] > 0) {
					t.Fatalf("%s holds %d, and a pod comes: %v", key, count[key], awaited)
				}
				if awaited {
					count[key]--
				}
				n.Wait(pod, awaited)
			case 4:
				for uid := range n.bound {
					n.Gone(uid)
					bound--
					break
				}
			}
			n.At(time.Unix(2000, 0))
			for step, ok := n.Next(nil); ok; step, ok = n.Next(nil) {
				bound += len(step.Bind)
			}
			held := 0
			for _, c := range count {
				held += c
			}
			if bound+held > 4 {
				t.Fatalf("there are %d pods, and %d are held", bound, held)
			}
		}
		for key := range count {
			n.Release(key)
		}
		for uid := range n.waiting {
			n.Gone(uid)
		}
		for uid := range n.bound {
			n.Gone(uid)
		}
		if why := n.Lacks(heldPods("1", 4)); why != "" || n.reserved.All.Pods != 0 || len(n.reserved.By) != 0 {
			t.Fatalf("of the empty node %+v is reserved: %s", n.reserved.All, why)
		}
	})
}

func TestWhatIsLacking(t *testing.T) {
	n := New(5, requests.Resources{corev1.ResourceCPU: 4000})
	for _, c := range []struct {
		cpu   string
		count int
		want  string
	}{
		{"1", 4, ""}, {"1", 5, "0/1 nodes are available: 1 there is no room for all of them at once."},
		{"5", 1, "0/1 nodes are available: 1 Insufficient cpu."}, {"10m", 6, "0/1 nodes are available: 1 there is no room for all of them at once."},
	} {
		if got := n.Lacks(heldPods(c.cpu, c.count)); got != c.want {
			t.Errorf("%d of %s: %q, want %q", c.count, c.cpu, got, c.want)
		}
	}
	n.Describe(&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}})
	if pods := heldPods("1", 1); n.Unfit(pods) == "" || n.Lacks(pods) == "" {
		t.Error("a cordoned node takes pods")
	}
}

// A template may state any priority: no class has been looked up.
func TestHeldRoomIsNotAboveTheSystem(t *testing.T) {
	for stated, want := range map[int32]int32{
		0: 0, -5: -5, 1000: 1000, 1_000_000_000: 1_000_000_000, 2_000_001_000: 1_000_000_000, math.MaxInt32: 1_000_000_000,
	} {
		e := ExpectedOf(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Priority: &stated}}, 1, time.Unix(1000, 0))
		if e.Pod.Priority != want {
			t.Errorf("%d: %d", stated, e.Pod.Priority)
		}
	}
}
