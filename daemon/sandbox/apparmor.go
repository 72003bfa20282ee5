package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/containerd"
)

// AppArmor rejects a pod that cannot be confined as it asks. A pod that has already begun to run goes on: its
// containers fail then.
func AppArmor(a *containerd.AppArmor) worker.Step {
	return worker.Step{
		Name:   "apparmor",
		Reason: "AppArmor",
		SetUp: func(_ context.Context, p *corev1.Pod, _ *worker.Sandbox) error {
			if err := a.Admit(p); err != nil && p.Status.Phase == corev1.PodPending {
				return &worker.Rejection{Err: err}
			}
			return nil
		},
		TearDown: func(context.Context, types.UID) error { return nil },
	}
}
