package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/oci"
)

// Cgroup makes the cgroup of a pod that has limits in addition to those of its containers. pids is how many processes
// all of them may have together; 0 means no limit.
func Cgroup(cgroups *cgroup.Pods, pids int64, host oci.Host) worker.Step {
	return worker.Step{
		Name:   "cgroup",
		Reason: "FailedCreatePodContainer",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *worker.Sandbox) (err error) {
			if limits := oci.PodResources(p, pids, host); limits != nil {
				sandbox.Cgroup, err = cgroups.SetUp(string(p.UID), limits)
			}
			return err
		},
		Resize: func(_ context.Context, p *corev1.Pod, running []worker.Running, loosen bool) error {
			r := cgroup.Resize{UID: string(p.UID), Pod: oci.PodResources(p, pids, host), Loosen: loosen}
			for _, c := range running {
				r.Containers = append(r.Containers, cgroup.ResizedContainer{
					Name: c.Container.Name, ID: c.ID, Limits: oci.Limits(p, c.Container, host),
				})
			}
			return cgroups.Resize(r)
		},
		TearDown: func(_ context.Context, uid types.UID) error { return cgroups.TearDown(string(uid)) },
		Held:     held(cgroups.Held),
	}
}

// cgroup returns the control group that a container's own is made in. Those for debugging have one where the pod has none: they have
// come after it, have no limits of their own, and what they leave in its memory is its own.
func (b Specs) cgroup(in worker.SpecInput) (string, error) {
	if in.Sandbox.Cgroup != "" {
		return in.Sandbox.Cgroup, nil
	}
	if podspec.FindEphemeral(&in.Pod.Spec, in.Container.Name) != nil {
		return b.PodCgroups.SetUp(string(in.Pod.UID), oci.DebuggingResources(in.Pod))
	}
	return b.Cgroups, nil
}
