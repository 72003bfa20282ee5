package sandbox

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/memory"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/oci"
)

// PodGroups are the control groups of pods, in which their containers' own are made.
type PodGroups struct {
	Groups *cgroup.Pods
	Pids   int64 // how many processes the containers of a pod may have together; 0 means no limit
	Host   oci.Host
	Left   *memory.Left
}

// setUp makes the group of a pod that has one, and returns it.
func (g PodGroups) setUp(p *corev1.Pod) (string, error) {
	limits := oci.PodResources(p, g.Pids, g.Host)
	if limits == nil {
		return "", nil
	}
	return g.Groups.SetUp(string(p.UID), limits)
}

// Step makes the group of a pod.
func (g PodGroups) Step() worker.Step {
	return worker.Step{
		Name:   "cgroup",
		Reason: "FailedCreatePodContainer",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *worker.Sandbox) (err error) {
			sandbox.Cgroup, err = g.setUp(p)
			return err
		},
		Resize: func(_ context.Context, p *corev1.Pod, running []worker.Running, loosen bool) error {
			r := cgroup.Resize{UID: string(p.UID), Pod: oci.PodResources(p, g.Pids, g.Host), Loosen: loosen}
			for _, c := range running {
				r.Containers = append(r.Containers, cgroup.ResizedContainer{
					Name: c.Container.Name, ID: c.ID, Limits: oci.Limits(p, c.Container, g.Host),
				})
			}
			return g.Groups.Resize(r)
		},
		Leave: func(_ context.Context, p *corev1.Pod) {
			if uid := string(p.UID); podspec.SharesFiles(&p.Spec) {
				g.Left.Keep(leftInGroup(uid), memory.Remains{
					Namespace: p.Namespace,
					Bytes:     func() int64 { return g.Groups.Left(uid) }, Release: func() error { return g.Groups.TearDown(uid) },
				})
			}
		},
		TearDown: func(_ context.Context, uid types.UID) error {
			if g.Left.Keeps(leftInGroup(string(uid))) {
				return nil
			}
			return g.Groups.TearDown(string(uid))
		},
		Held: held(g.Groups.Held),
	}
}

// leftInGroup is the name of what a pod has left in its group.
func leftInGroup(uid string) string { return uid + "/cgroup" }

// cgroup returns the control group that a container's own is made in. A pod that had none when it was set up has one as soon as a
// container for debugging comes.
func (b Specs) cgroup(in worker.SpecInput) (string, error) {
	if in.Sandbox.Cgroup != "" {
		return in.Sandbox.Cgroup, nil
	}
	group, err := b.PodGroups.setUp(in.Pod)
	return cmp.Or(group, b.Cgroups), err
}
