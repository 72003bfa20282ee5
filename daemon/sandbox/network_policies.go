package sandbox

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/policies"
	"github.com/jobd/jobd/daemon/worker"
)

// NetworkPolicies lets NetworkPolicies apply to a pod before its first packet. It follows the step of the network, whose
// address it needs.
func NetworkPolicies(e *policies.Enforcer) worker.Step {
	return worker.Step{
		Name:   "network policies",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *worker.Sandbox) error {
			if sandbox.HostNetwork || len(sandbox.IPs) == 0 {
				return nil
			}
			at, err := netip.ParseAddr(sandbox.IPs[0])
			if err != nil {
				return fmt.Errorf("address of the pod: %w", err)
			}
			return e.Admit(p, at)
		},
		TearDown: func(_ context.Context, uid types.UID) error {
			e.Forget(uid)
			return nil
		},
	}
}
