package node

import (
	"testing"
	"time"
)

func TestWhy(t *testing.T) {
	const hopeless = ". preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
	const nobody = ". preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	for rule, c := range map[string]struct {
		spec string
		do   func(*testing.T, *Node)
		want string
	}{
		"a pod that asks for nothing fits":             {`containers: [{name: a}]`, nil, ""},
		"what the node has fits":                       {`containers: [{name: a, resources: {requests: {cpu: 2, memory: 100}}}]`, nil, ""},
		"containers ask together":                      {`containers: [{name: a, resources: {requests: {cpu: 1500m}}}, {name: b, resources: {requests: {cpu: 501m}}}]`, nil, "1 Insufficient cpu" + hopeless},
		"init containers come one after the other":     {`{containers: [{name: a, resources: {requests: {cpu: 1500m}}}], initContainers: [{name: b, resources: {requests: {cpu: 2}}}, {name: c, resources: {requests: {cpu: 2}}}]}`, nil, ""},
		"an init container alone may ask for too much": {`{containers: [{name: a}], initContainers: [{name: b, resources: {requests: {memory: 2Gi}}}]}`, nil, "1 Insufficient memory" + hopeless},
		"a resource that the node does not know":       {`containers: [{name: a, resources: {requests: {nvidia.com/gpu: 1, cpu: 3}}}]`, nil, "1 Insufficient cpu, 1 Insufficient nvidia.com/gpu" + hopeless},
		"a selector of this node":                      {`{nodeSelector: {kubernetes.io/os: linux, kubernetes.io/hostname: here}, containers: [{name: a}]}`, nil, ""},
		"a selector of another one":                    {`{nodeSelector: {disk: ssd}, containers: [{name: a}]}`, nil, "1 node(s) didn't match Pod's node affinity/selector" + hopeless},
		"an affinity to another one":                   {`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}}}, containers: [{name: a}]}`, nil, "1 node(s) didn't match Pod's node affinity/selector" + hopeless},
		"an affinity to all but another one":           {`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: NotIn, values: [there]}]}]}}}, containers: [{name: a}]}`, nil, ""},
		"what is taken is not there":                   {`containers: [{name: a, resources: {requests: {cpu: 2, memory: 1}}}]`, func(_ *testing.T, n *Node) { n.run(want("x", 0, 1), 0) }, "1 Insufficient cpu" + nobody},
		"no place is left":                             {`containers: [{name: a}]`, func(_ *testing.T, n *Node) { n.run(want("x", 0, 0), 0); n.run(want("y", 0, 0), 0) }, "1 Too many pods" + nobody},
		"one that is polite waits": {`{preemptionPolicy: Never, priority: 5, containers: [{name: a, resources: {requests: {cpu: 2}}}]}`, func(_ *testing.T, n *Node) { n.run(want("x", 0, 1), 0) },
			"1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."},
		"one for which others make way waits for them": {`{priority: 5, containers: [{name: a, resources: {requests: {cpu: 2}}}]}`, func(_ *testing.T, n *Node) { n.run(want("x", 0, 1), 0) },
			"1 Insufficient cpu. preemption: not eligible due to a terminating pod on the nominated node."},
		"what is kept for a higher priority is not there": {`containers: [{name: a, resources: {requests: {cpu: 1500m}}}]`, func(_ *testing.T, n *Node) {
			n.Bound(want("x", 0, 100), time.Unix(0, 0), true)
			n.Wait(want("y", 0, 2000).with(prio(5)), true)
		}, "1 Insufficient cpu, 1 Too many pods" + nobody},
		"a port is taken": {`containers: [{name: a, ports: [{hostPort: 80, protocol: TCP}], resources: {requests: {cpu: 2}}}]`, func(t *testing.T, n *Node) {
			n.run(read(t, "x", `containers: [{name: a, ports: [{hostPort: 80, protocol: TCP}]}]`), 0)
		}, "1 node(s) didn't have free ports for the requested pod ports" + nobody},
		"a cordon comes before all else": {`{nodeSelector: {disk: ssd}, containers: [{name: a}]}`, func(t *testing.T, n *Node) {
			facing(t, n, `spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}`)
		}, "1 node(s) were unschedulable" + hopeless},
		"a taint before a selector": {`{nodeSelector: {disk: ssd}, containers: [{name: a}]}`, func(t *testing.T, n *Node) {
			facing(t, n, `spec: {taints: [{key: k, effect: NoExecute}]}`)
		}, "1 node(s) had untolerated taint(s)" + hopeless},
	} {
		t.Run(rule, func(t *testing.T) {
			n := New(2, Resources{"cpu": 2000, "memory": 100})
			facing(t, n, `metadata: {labels: {kubernetes.io/hostname: here, kubernetes.io/os: linux}}`)
			n.Wait(read(t, "p", c.spec), false)
			if c.do != nil {
				n.Gone("p")
				c.do(t, n)
				n.Wait(read(t, "p", c.spec), false)
			}
			why := n.Why("p")
			for step, ok := n.Next(); ok; step, ok = n.Next() {
				if len(step.Nominate) > 0 {
					why = n.Why("p")
				}
			}
			if c.want != "" {
				c.want = "0/1 nodes are available: " + c.want
			}
			if why != c.want {
				t.Errorf("got %q, want %q", why, c.want)
			}
			if (n.Why("p") == "") != (n.Running() > 0 && n.bound["p"] != nil) {
				t.Errorf("it waits for %q", n.Why("p"))
			}
		})
	}
}

func TestWhyAGangWaits(t *testing.T) {
	n := New(9, Resources{"cpu": 2000})
	n.run(want("found", 0, 500), 0)
	wait := func(uid string, why string) {
		t.Helper()
		decide(n)
		n.Changed()
		if got := n.Why("a"); got != why {
			t.Errorf("%s: got %q, want %q", uid, got, why)
		}
	}
	n.Wait(want("a", 1, 1000).with(of("g")), false)
	wait("alone", `waiting for pods's pod group "g" to appear in scheduling queue`)
	n.SetGroup("ns/g", Group{Gang: true, MinCount: 3})
	wait("with its group", "waiting for minCount pods from a gang to appear in scheduling queue")
	n.Wait(want("b", 1, 1000).with(of("g")), false)
	n.Wait(want("c", 1, 1000).with(of("g")), false)
	if len(n.Changed()) < 3 {
		t.Error("nobody is told that they wait for another reason now")
	}
	wait("complete", "pod group is unschedulable, minCount (3) cannot be satisfied: 1 scheduled, 1 remaining")
	n.SetGroup("ns/g", Group{Gang: true, MinCount: 2})
	wait("with a smaller need", "pod group is unschedulable, minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")

	n.SetGroup("ns/big", Group{Gang: true, MinCount: 1})
	n.Wait(want("d", 1, 3000).with(of("big")), false)
	decide(n)
	if got, why := n.Why("d"), "pod group is unschedulable, minCount (1) cannot be satisfied: 0 scheduled, 0 remaining. 0/1 nodes are available: 1 Insufficient cpu."; got != why {
		t.Errorf("alone it would not fit either: got %q, want %q", got, why)
	}
}
