package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/memory"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/network"
)

// Network makes the network of a pod and the other namespaces that its containers share.
func Network(n *network.Network, left *memory.Left) worker.Step {
	return worker.Step{
		Name:   "network",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *worker.Sandbox) error {
			a, err := n.SetUp(p, sandbox.Namespaces)
			sandbox.Namespaces, sandbox.IPs, sandbox.HostNetwork = a.Namespaces, a.IPs, a.Host
			return err
		},
		Leave: func(_ context.Context, p *corev1.Pod) {
			name := string(p.UID) + "/sockets"
			if !podspec.SharesFiles(&p.Spec) || left.Keeps(name) { // a tear-down that has failed is repeated whole
				return
			}
			sockets, err := n.Sockets(string(p.UID))
			if err != nil || sockets == nil {
				return // TearDown says what is wrong
			}
			bytes := func() int64 {
				n, _, _ := sockets.Memory()
				return n
			}
			if !left.Keep(name, memory.Remains{Namespace: p.Namespace, Bytes: bytes, Release: sockets.Close}) {
				sockets.Close()
			}
		},
		TearDown: func(_ context.Context, uid types.UID) error { return n.TearDown(string(uid)) },
		Held:     held(n.Held),
	}
}
