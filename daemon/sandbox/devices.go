package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/devices"
	"github.com/jobd/jobd/store"
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

// MissedDevices returns a function that reports whether a resource of the Node of that name stands for devices that are
// not there now (devices.Options).
func MissedDevices(s *store.Store, node string) func(corev1.ResourceName) (bool, error) {
	return func(name corev1.ResourceName) (missed bool, err error) {
		stored := &corev1.Node{}
		err = s.View(func(s *store.Snapshot) error {
			ok, err := objects.Read(s, store.Key(objects.Nodes, "", node), stored)
			missed = ok && objects.MissesDevices(stored, name)
			return err
		})
		return missed, err
	}
}
