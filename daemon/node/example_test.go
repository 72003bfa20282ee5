package node_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/requests"
)

// pod returns a pod that requests some cpu.
func pod(uid types.UID, cpu string, priority int32) *node.Pod {
	p := &corev1.Pod{}
	p.UID, p.Namespace, p.Spec.Priority = uid, "default", &priority
	p.Spec.Containers = []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
	}}
	return node.PodOf(p)
}

// A pod of a higher priority gets the room of one that runs.
func Example() {
	n := node.New(110, requests.Resources{"cpu": 2000})
	n.Bound(pod("nightly", "2", 0), time.Unix(0, 0), false)
	n.Wait(pod("urgent", "1", 100), false)
	for step, ok := n.Next(nil); ok; step, ok = n.Next(nil) {
		fmt.Println("bind", step.Bind, "preempt", step.Victims, "nominate", step.Nominate)
	}
	fmt.Println(n.Why("urgent"))

	n.Gone("nightly") // it has ended
	for step, ok := n.Next(nil); ok; step, ok = n.Next(nil) {
		fmt.Println("bind", step.Bind)
	}
	// Output:
	// bind [] preempt [nightly] nominate [urgent]
	// 0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to a terminating pod on the nominated node.
	// bind [urgent]
}
