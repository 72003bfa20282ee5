package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/devices"
)

// Devices assigns to a pod the devices that it requests.
func Devices(d *devices.Devices) worker.Step {
	return worker.Step{
		Name:   "devices",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(ctx context.Context, p *corev1.Pod, sandbox *worker.Sandbox) (err error) {
			sandbox.Devices, err = d.SetUp(ctx, p, sandbox.Yield)
			return err
		},
		TearDown: func(_ context.Context, uid types.UID) error { return d.TearDown(string(uid)) },
		Held:     held(d.Held),
	}
}
