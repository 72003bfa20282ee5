package sandbox

import (
	"context"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/processes"
)

// Processes makes the PID namespace of a pod whose containers share one.
func Processes(shared *processes.Processes) worker.Step {
	return worker.Step{
		Name:   "processes",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *worker.Sandbox) (err error) {
			if share := p.Spec.ShareProcessNamespace; share != nil && *share {
				sandbox.Namespaces[specs.PIDNamespace], err = shared.SetUp(string(p.UID), sandbox.UsersPath)
			}
			return err
		},
		TearDown: func(_ context.Context, uid types.UID) error { return shared.TearDown(string(uid)) },
		Held:     held(shared.Held),
	}
}
