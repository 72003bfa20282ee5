package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheNodeMakesRoomForCriticalPods(t *testing.T) {
	const critical, nodeCritical = 2_000_000_000, 2_000_001_000
	class := func(qos corev1.PodQOSClass) func(*Pod) { return func(p *Pod) { p.class = classOf(qos) } }
	type pods []*Pod
	for rule, c := range map[string]struct {
		bound   pods
		pod     *Pod
		victims []types.UID
		refusal string
	}{
		"one that is large enough is better than two": {
			bound: pods{want("a", 1, 1000), want("b", 1, 1000), want("c", 1, 1000)}, pod: want("p", 2, 900).with(prio(critical)),
			victims: []types.UID{"a"},
		},
		"as many as are needed": {
			bound: pods{want("a", 1, 500), want("b", 1, 2000), want("c", 1, 500)}, pod: want("p", 2, 2500).with(prio(critical)),
			victims: []types.UID{"b", "a"},
		},
		"BestEffort pods have none of it, and stay": {
			bound: pods{want("a", 1, 0), want("b", 1, 2000).with(class(corev1.PodQOSBurstable)), want("c", 1, 1000).with(class(corev1.PodQOSGuaranteed))},
			pod:   want("p", 2, 1000).with(prio(critical)), victims: []types.UID{"b"},
		},
		"a Guaranteed one only if the others do not have enough": {
			bound: pods{want("b", 1, 1000).with(class(corev1.PodQOSBurstable)), want("c", 1, 2000).with(class(corev1.PodQOSGuaranteed))},
			pod:   want("p", 2, 1500).with(prio(critical)), victims: []types.UID{"c"},
		},
		"one that is critical itself stays": {
			bound: pods{want("a", 1, 2000).with(prio(critical)), want("b", 1, 1000)}, pod: want("p", 2, 2000).with(prio(critical)),
			refusal: "no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]",
		},
		"but not before a more critical one": {
			bound: pods{want("a", 1, 2000).with(prio(critical)), want("b", 1, 1000)}, pod: want("p", 2, 2000).with(prio(nodeCritical)),
			victims: []types.UID{"a"},
		},
		"more than there is": {
			bound: pods{want("a", 1, 1000)}, pod: want("p", 2, 4000).with(prio(critical)),
			refusal: "no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]",
		},
		"where room does not help nobody is evicted": {
			bound:   pods{want("a", 1, 3000)},
			pod:     read(t, "p", `{priority: 2000000000, nodeSelector: {disk: ssd}, containers: [{name: c, resources: {requests: {cpu: 1}}}]}`),
			refusal: "node(s) didn't match Pod's node affinity/selector",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			n := New(10, Resources{"cpu": 3000})
			for _, p := range c.bound {
				n.run(p, 0)
			}
			if n.Refuses(c.pod) == nil {
				t.Fatal("there is room")
			}
			victims, refusal := n.MakeRoom(c.pod)
			if !slices.Equal(victims, c.victims) {
				t.Errorf("victims %v, want %v", victims, c.victims)
			}
			if (refusal != nil) != (c.refusal != "") || refusal != nil && !strings.HasSuffix(refusal.Message, c.refusal) {
				t.Errorf("refused with %+v, want %q", refusal, c.refusal)
			}
		})
	}
}

// What is freed for a critical pod goes to nobody else, and nobody else is evicted for it meanwhile.
func TestRoomForACriticalPodIsKept(t *testing.T) {
	n := New(10, Resources{"cpu": 3000})
	n.run(want("a", 1, 2000), 0)
	n.run(want("b", 1, 1000), 0)
	p := want("p", 2, 3000).with(prio(criticalPriority))
	if victims, _ := n.MakeRoom(p); len(victims) != 2 {
		t.Fatalf("victims %v", victims)
	}
	n.Wait(want("small", 3, 500), false)
	n.Wait(want("important", 3, 500).with(prio(1_000_000_000)), false)
	n.Gone("a")
	if got := decide(n); got != "" {
		t.Errorf("%s while it waits for the second", got)
	}
	if victims, refusal := n.MakeRoom(p); len(victims) > 0 || refusal != nil {
		t.Errorf("meanwhile %v are evicted, %v", victims, refusal)
	}
	n.Gone("b")
	if refusal := n.Refuses(p); refusal != nil {
		t.Errorf("at last it is refused: %+v", refusal)
	}
	n.Bound(p, time.Time{}, false)
	if got := decide(n); got != "" || n.reserved.all.pods > 0 {
		t.Errorf("%s beside it, %d pods are expected", got, n.reserved.all.pods)
	}
	n.Gone("p")
	if got := decide(n); got != "+important +small" {
		t.Errorf("after it: %s", got)
	}

	n.run(want("c", 1, 2000), 0)
	n.MakeRoom(want("never", 2, 3000).with(prio(criticalPriority)))
	n.Gone("never")
	if n.reserved.all.pods+len(n.expected) > 0 {
		t.Error("room is kept for one that is gone")
	}
}
