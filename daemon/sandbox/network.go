package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/network"
)

// Network makes the network of a pod and the other namespaces that its containers share.
func Network(n *network.Network) worker.Step {
	return worker.Step{
		Name:   "network",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *worker.Sandbox) error {
			a, err := n.SetUp(p, sandbox.Namespaces)
			sandbox.Namespaces, sandbox.IPs, sandbox.HostNetwork = a.Namespaces, a.IPs, a.Host
			return err
		},
		TearDown: func(_ context.Context, uid types.UID) error { return n.TearDown(string(uid)) },
		Held:     held(n.Held),
	}
}
