package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/userns"
)

// UserNamespace makes the user namespace of a pod that has one of its own, and the namespaces that belong to it. It comes
// before the network, which is made in them.
func UserNamespace(u *userns.Namespaces, byDefault bool, n *network.Network) worker.Step {
	return worker.Step{
		Name:   "user-namespace",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *worker.Sandbox) error {
			uid := string(p.UID)
			// What a pod has been given stays, although the setting may have changed since.
			before := u.Has(uid) || n.Has(uid)
			if before && !u.Has(uid) || !before && !hasOwnUsers(p, byDefault && !sandbox.Foreign()) {
				return nil
			}
			own, err := u.SetUp(uid)
			if err != nil {
				return err
			}
			users := own.Mapping()
			sandbox.Namespaces, sandbox.Users, sandbox.UsersPath = own.Paths, &users, own.Reach
			return nil
		},
		TearDown: func(_ context.Context, uid types.UID) error { return u.TearDown(string(uid)) },
		Held:     held(u.Held),
	}
}

// hasOwnUsers reports whether a pod is to have a user namespace of its own (PodSpec.HostUsers). byDefault gives one to
// those that do not say, unless they use another namespace of the host.
func hasOwnUsers(p *corev1.Pod, byDefault bool) bool {
	if p.Spec.HostUsers != nil {
		return !*p.Spec.HostUsers
	}
	return byDefault && !p.Spec.HostNetwork && !p.Spec.HostPID && !p.Spec.HostIPC
}
