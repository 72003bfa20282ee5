package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// want returns a pod that asks for that much cpu, in thousandths.
func want(uid types.UID, created int64, cpu int64) *Pod {
	ask := Resources{"cpu": cpu}
	if cpu == 0 {
		ask = nil
	}
	return &Pod{UID: uid, Created: uint32(created), shape: newShape(ask, nil, terms{}, false)}
}

func (p *Pod) with(change func(*Pod)) *Pod {
	change(p)
	return p
}

func prio(n int32) func(*Pod)       { return func(p *Pod) { p.Priority = n } }
func of(g string) func(*Pod)        { return func(p *Pod) { p.Group = "ns/" + g } }
func (n *Node) run(p *Pod, s int64) { n.Bound(p, time.Unix(s, 0), false) }

// read returns a pod with a spec given in YAML.
func read(t *testing.T, uid types.UID, spec string) *Pod {
	t.Helper()
	pod := &corev1.Pod{}
	pod.UID, pod.Namespace = uid, "ns"
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	return PodOf(pod)
}

func facing(t *testing.T, n *Node, node string) {
	t.Helper()
	obj := &corev1.Node{}
	if err := yaml.UnmarshalStrict([]byte(node), obj); err != nil {
		t.Fatal(err)
	}
	n.Describe(obj)
}

// decide takes all decisions and writes them down: "+a" for a pod that is bound, "-b" for one that makes way, "c?" for
// one that waits for that.
func decide(n *Node) string {
	var said []string
	note := func(format string, uids []types.UID) {
		if len(uids) > 0 {
			slices.Sort(uids)
			var names []string
			for _, uid := range uids {
				names = append(names, string(uid))
			}
			said = append(said, fmt.Sprintf(format, strings.Join(names, "&")))
		}
	}
	for step, ok := n.Next(); ok; step, ok = n.Next() {
		note("+%s", step.Bind)
		note("-%s", step.Victims)
		note("%s?", step.Nominate)
	}
	return strings.Join(said, " ")
}

func TestAdmission(t *testing.T) {
	gang := func(min int) Group { return Group{Gang: true, MinCount: min} }
	for rule, c := range map[string]struct {
		maxPods int
		do      func(*testing.T, *Node)
		want    string
	}{
		"nobody goes where it is cordoned": {9, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 0), false)
			facing(t, n, `spec: {unschedulable: true}`)
		}, ""},
		"but one that tolerates that does": {9, func(t *testing.T, n *Node) {
			n.Wait(read(t, "a", `{tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}], containers: []}`), false)
			facing(t, n, `spec: {unschedulable: true}`)
		}, "+a"},
		"they go on once it is not any more": {9, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 0), false)
			facing(t, n, `spec: {unschedulable: true}`)
			decide(n)
			facing(t, n, `spec: {}`)
		}, "+a"},
		"a taint keeps those away that do not tolerate it": {9, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 0), false)
			n.Wait(read(t, "b", `{tolerations: [{key: k, value: v}], containers: []}`), false)
			facing(t, n, `spec: {taints: [{key: k, value: v, effect: NoSchedule}]}`)
		}, "+b"},
		"one that is only preferred keeps nobody away from the one node": {9, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 0), false)
			facing(t, n, `spec: {taints: [{key: k, effect: PreferNoSchedule}]}`)
		}, "+a"},
		"a selector waits for the labels": {9, func(t *testing.T, n *Node) {
			n.Wait(read(t, "a", `{nodeSelector: {disk: ssd}, containers: []}`), false)
			n.Wait(want("b", 1, 0), false)
			decide(n)
			facing(t, n, `metadata: {labels: {disk: ssd}}`)
		}, "+a"},
		"the oldest goes first": {9, func(t *testing.T, n *Node) {
			n.Wait(want("young", 2, 0), false)
			n.Wait(want("old", 1, 0), false)
		}, "+old +young"},
		"a higher priority goes before an older pod": {9, func(t *testing.T, n *Node) {
			n.Wait(want("old", 1, 0), false)
			n.Wait(want("urgent", 2, 0).with(prio(7)), false)
		}, "+urgent +old"},
		"no more pods than the node holds": {1, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 0), false)
			n.Wait(want("b", 2, 0), false)
		}, "+a"},
		"a pod found at start takes room": {1, func(t *testing.T, n *Node) {
			n.run(want("found", 0, 0), 0)
			n.Wait(want("a", 1, 0), false)
		}, ""},
		"a pod that has ended makes room": {1, func(t *testing.T, n *Node) {
			n.run(want("found", 0, 0), 0)
			n.Wait(want("a", 1, 0), false)
			decide(n)
			n.Gone("found")
		}, "+a"},
		"a pod that was deleted while it waited is not admitted": {9, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 0), false)
			n.Wait(want("b", 2, 0), false)
			n.Gone("a")
		}, "+b"},
		"a pod waits until what it asks for is there": {9, func(t *testing.T, n *Node) {
			n.run(want("found", 0, 1500), 0)
			n.Wait(want("a", 1, 1000), false)
		}, ""},
		"pods fill what there is": {9, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 1000), false)
			n.Wait(want("b", 2, 1000), false)
			n.Wait(want("c", 3, 1000), false)
		}, "+a +b"},
		"one that does not fit holds up nobody, whatever its priority": {9, func(t *testing.T, n *Node) {
			n.run(want("found", 0, 1500).with(prio(9)), 0)
			n.Wait(want("big", 1, 1000).with(prio(9)), false)
			n.Wait(want("small", 2, 500), false)
			n.Wait(want("none", 1, 0), false)
		}, "+none +small"},
		"what the node has not got is not given": {9, func(t *testing.T, n *Node) {
			n.Wait(read(t, "a", `{containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]}`), false)
		}, ""},
		"what a pod's runtime class takes for each pod counts too": {9, func(t *testing.T, n *Node) {
			const spec = `{overhead: {cpu: 400m}, containers: [{name: c, resources: {requests: {cpu: 600m}}}]}`
			n.run(want("found", 0, 500), 0)
			n.Wait(read(t, "a", spec), false)
			n.Wait(read(t, "b", spec), false)
		}, "+a"},
		"and for those of a group together": {9, func(t *testing.T, n *Node) {
			const spec = `{overhead: {cpu: 400m}, containers: [{name: c, resources: {requests: {cpu: 700m}}}]}`
			n.SetGroup("ns/g", gang(2))
			n.Wait(read(t, "a", spec).with(of("g")), false)
			n.Wait(read(t, "b", spec).with(of("g")), false)
		}, ""},
		"a pod that is bound or waits twice counts once": {9, func(t *testing.T, n *Node) {
			n.run(want("found", 0, 1000), 0)
			n.run(want("found", 0, 1000), 0)
			n.Wait(want("a", 1, 1000), false)
			n.Wait(want("a", 1, 1000), false)
		}, "+a"},
		"a port of the host is for one pod": {9, func(t *testing.T, n *Node) {
			n.Wait(read(t, "a", `{containers: [{name: c, ports: [{hostPort: 80, protocol: TCP}]}]}`), false)
			n.Wait(read(t, "b", `{containers: [{name: c, ports: [{hostPort: 80, protocol: TCP, hostIP: 192.0.2.1}]}]}`), false)
			n.Wait(read(t, "c", `{containers: [{name: c, ports: [{hostPort: 80, protocol: UDP}]}]}`), false)
		}, "+a +c"},
		"on another address it is another one": {9, func(t *testing.T, n *Node) {
			n.Wait(read(t, "a", `{containers: [{name: c, ports: [{hostPort: 80, protocol: TCP, hostIP: 192.0.2.2}]}]}`), false)
			n.Wait(read(t, "b", `{containers: [{name: c, ports: [{hostPort: 80, protocol: TCP, hostIP: 192.0.2.1}]}]}`), false)
		}, "+a +b"},

		// Preemption.
		"a lower priority makes way": {9, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 2000), 0)
			n.Wait(want("high", 1, 1000).with(prio(5)), false)
		}, "-low high?"},
		"the same priority does not": {9, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 2000).with(prio(5)), 0)
			n.Wait(want("high", 1, 1000).with(prio(5)), false)
		}, ""},
		"nor for one that does not want it": {9, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 2000), 0)
			n.Wait(want("high", 1, 1000).with(prio(5)).with(func(p *Pod) { p.Polite = true }), false)
		}, ""},
		"one that wants it does not stand behind one that does not": {9, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 2000), 0)
			n.Wait(read(t, "a", `{priority: 5, preemptionPolicy: Never, containers: [{name: c, resources: {requests: {cpu: 1}}}]}`), false)
			n.Wait(read(t, "b", `{priority: 5, containers: [{name: c, resources: {requests: {cpu: 1}}}]}`), false)
		}, "-low b?"},
		"nor where it would not help": {9, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 500), 0)
			n.run(want("equal", 0, 1500).with(prio(5)), 0)
			n.Wait(want("high", 1, 1000).with(prio(5)), false)
		}, ""},
		"no more make way than have to": {9, func(t *testing.T, n *Node) {
			for i, uid := range []types.UID{"a", "b", "c", "d"} {
				n.run(want(uid, 0, 500), int64(i))
			}
			n.Wait(want("high", 1, 1000).with(prio(5)), false)
		}, "-c&d high?"},
		"the lowest priority makes way first, however old": {9, func(t *testing.T, n *Node) {
			n.run(want("old", 0, 1000), 0)
			n.run(want("new", 0, 1000).with(prio(1)), 9)
			n.Wait(want("high", 1, 1000).with(prio(5)), false)
		}, "-old high?"},
		"a place among the pods is made too": {1, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 0), 0)
			n.Wait(want("high", 1, 0).with(prio(5)), false)
		}, "-low high?"},
		"and a port": {9, func(t *testing.T, n *Node) {
			n.run(read(t, "low", `{containers: [{name: c, ports: [{hostPort: 80, protocol: TCP}]}]}`), 0)
			n.run(want("other", 0, 0), 5)
			n.Wait(read(t, "high", `{priority: 5, containers: [{name: c, ports: [{hostPort: 80, protocol: TCP}]}]}`), false)
		}, "-low high?"},
		"each gets its own": {9, func(t *testing.T, n *Node) {
			n.run(want("a", 0, 1000), 1)
			n.run(want("b", 0, 1000), 2)
			n.Wait(want("x", 1, 1000).with(prio(5)), false)
			n.Wait(want("y", 2, 1000).with(prio(5)), false)
			n.Wait(want("z", 3, 1000).with(prio(5)), false)
		}, "-b x? -a y?"},
		"while others end nobody else has to": {9, func(t *testing.T, n *Node) {
			n.Bound(want("ending", 0, 1000), time.Unix(0, 0), true)
			n.run(want("low", 0, 1000), 0)
			n.Wait(want("high", 1, 1000).with(prio(5)), false)
		}, "high?"},
		"what is made is kept for the one who waits": {9, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 2000), 0)
			n.Wait(want("high", 1, 2000).with(prio(5)), false)
			decide(n)
			n.Wait(want("low2", 0, 500), false)
			n.Wait(want("equal", 2, 500).with(prio(5)), false)
			n.Gone("low")
		}, "+high"},
		"a still higher priority may have it": {9, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 2000), 0)
			n.Wait(want("high", 1, 2000).with(prio(5)), false)
			decide(n)
			n.Gone("low")
			n.Wait(want("higher", 2, 2000).with(prio(6)), false)
		}, "+higher"},
		"it is free again when that one goes": {9, func(t *testing.T, n *Node) {
			n.run(want("low", 0, 2000), 0)
			n.Wait(want("high", 1, 2000).with(prio(5)), false)
			decide(n)
			n.Wait(want("low2", 0, 500), false)
			n.Gone("low")
			n.Gone("high")
		}, "+low2"},
		"one that was to have it before a restart still is": {9, func(t *testing.T, n *Node) {
			n.Bound(want("low", 0, 2000), time.Unix(0, 0), true)
			n.Wait(want("high", 1, 2000).with(prio(5)), true)
			n.Wait(want("low2", 0, 500), false)
			n.Gone("low")
		}, "+high"},

		// Gangs.
		"a pod waits for its group": {9, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 0).with(of("g")), false)
		}, ""},
		"one of a group that is no gang goes by itself": {9, func(t *testing.T, n *Node) {
			n.Wait(want("a", 1, 0).with(of("g")), false)
			decide(n)
			n.SetGroup("ns/g", Group{})
		}, "+a"},
		"a gang waits until it is complete": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(2))
			n.Wait(want("a", 1, 0).with(of("g")), false)
			n.Wait(want("other", 2, 0), false)
		}, "+other"},
		"then it starts together": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(2))
			n.Wait(want("a", 1, 0).with(of("g")), false)
			decide(n)
			n.Wait(want("b", 2, 0).with(of("g")), false)
			n.Wait(want("c", 3, 0).with(of("g")), false)
		}, "+a&b&c"},
		"it waits while there is no room for all that it needs": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(2))
			n.run(want("found", 0, 500), 0)
			n.Wait(want("a", 1, 1000).with(of("g")), false)
			n.Wait(want("b", 2, 1000).with(of("g")), false)
			n.Wait(want("other", 3, 1000), false)
		}, "+other"},
		"and starts when there is": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(2))
			n.run(want("found", 0, 500), 0)
			n.Wait(want("a", 1, 1000).with(of("g")), false)
			n.Wait(want("b", 2, 1000).with(of("g")), false)
			n.Wait(want("c", 2, 1000).with(of("g")), false)
			decide(n)
			n.Gone("found")
		}, "+a&b"},
		"or when the others fit without one that has gone": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(2))
			n.Wait(want("large", 1, 1500).with(of("g")), false)
			n.Wait(want("b", 2, 1000).with(of("g")), false)
			n.Wait(want("c", 3, 1000).with(of("g")), false)
			if got := decide(n); got != "" {
				t.Errorf("too early: %s", got)
			}
			n.Gone("large")
		}, "+b&c"},
		"those beyond what it needs come one by one": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(1))
			for _, uid := range []types.UID{"a", "b", "c"} {
				n.Wait(want(uid, 1, 1000).with(of("g")), false)
			}
			decide(n)
			n.Gone("a")
		}, "+c"},
		"one that takes the place of another finds its gang there": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(2))
			n.Wait(want("a", 1, 1000).with(of("g")), false)
			n.Wait(want("b", 1, 1000).with(of("g")), false)
			decide(n)
			n.Gone("a")
			n.Wait(want("c", 3, 1000).with(of("g")), false)
		}, "+c"},
		"the last ones of a gang need no more than there are": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(3))
			n.Wait(want("a", 1, 1000).with(of("g")), false)
			decide(n)
			n.Resize("ns/g", 1)
		}, "+a"},
		"lower priorities make way for a whole gang": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(2))
			n.run(want("x", 0, 1000), 1)
			n.run(want("y", 0, 1000), 2)
			n.Wait(want("a", 1, 1000).with(of("g")).with(prio(5)), false)
			n.Wait(want("b", 2, 1000).with(of("g")).with(prio(5)), false)
		}, "-x&y a&b?"},
		"it starts once all of them are gone": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(2))
			n.run(want("x", 0, 1000), 1)
			n.run(want("y", 0, 1000), 2)
			n.Wait(want("a", 1, 1000).with(of("g")).with(prio(5)), false)
			n.Wait(want("b", 2, 1000).with(of("g")).with(prio(5)), false)
			decide(n)
			n.Wait(want("z", 0, 500), false)
			n.Gone("x")
			if got := decide(n); got != "" {
				t.Errorf("too early: %s", got)
			}
			n.Gone("y")
		}, "+a&b"},
		"nobody makes way for a gang that would not fit all the same": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", gang(3))
			n.run(want("x", 0, 1000), 1)
			for _, uid := range []types.UID{"a", "b", "c"} {
				n.Wait(want(uid, 1, 1000).with(of("g")).with(prio(5)), false)
			}
		}, ""},
		"a group makes way as a whole if it says so": {9, func(t *testing.T, n *Node) {
			n.SetGroup("ns/g", Group{Gang: true, MinCount: 2, All: true})
			n.run(want("a", 0, 500).with(of("g")), 1)
			n.run(want("b", 0, 500).with(of("g")), 2)
			n.run(want("x", 0, 1000).with(prio(1)), 3)
			n.Wait(want("high", 1, 500).with(prio(5)), false)
		}, "-a&b high?"},
	} {
		t.Run(rule, func(t *testing.T) {
			n := New(c.maxPods, Resources{"cpu": 2000, "memory": 100})
			c.do(t, n)
			if got := decide(n); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
