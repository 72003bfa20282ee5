package sandbox

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/volume"
)

// Volumes makes the volumes of a pod, and the files that it gets from the host. overLimit returns the limit of local
// storage that a pod has exceeded; empty if there is none.
func Volumes(v *volume.Volumes, overLimit func(context.Context, *corev1.Pod) string) worker.Step {
	return worker.Step{
		Name:   "volumes",
		Reason: "FailedMount",
		SetUp: func(ctx context.Context, p *corev1.Pod, sandbox *worker.Sandbox) (err error) {
			set := func() { sandbox.Mounts, err = v.SetUp(ctx, p, sandbox.UsersPath) }
			if sandbox.Yield != nil && waits(p) {
				sandbox.Yield(set)
			} else {
				set()
			}
			if err == nil && sharesMemory(p, sandbox) {
				sandbox.SharedMemory, err = v.SharedMemory(string(p.UID))
			}
			return err
		},
		Measure:  overLimit,
		Refresh:  func(_ context.Context, p *corev1.Pod) error { return v.Refresh(p) },
		TearDown: func(ctx context.Context, uid types.UID) error { return v.TearDown(ctx, string(uid)) },
		Held:     held(v.Held),
	}
}

// sharesMemory reports whether what the containers of a pod have at /dev/shm has to be made for them, as it outlives each
// of them in a cluster. Where nobody can tell, their OCI runtime makes it: to start anything takes longer with each mount
// of the host. One that is neither crun nor runc may give each container a kernel of its own, which shares no memory.
func sharesMemory(p *corev1.Pod, sandbox *worker.Sandbox) bool {
	return !p.Spec.HostIPC && !sandbox.Foreign() && !podspec.RunsOnce(&p.Spec)
}

// waits reports whether a volume of a pod may be on a server, which need not answer.
func waits(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.NFS != nil || v.PersistentVolumeClaim != nil
	})
}
