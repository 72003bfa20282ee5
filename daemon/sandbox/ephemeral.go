package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime"
)

// kinds names namespaces as /proc does.
var kinds = map[specs.LinuxNamespaceType]string{
	specs.PIDNamespace: "pid", specs.IPCNamespace: "ipc", specs.NetworkNamespace: "net",
}

// join prepares the start of a container that is added to a running pod: its mounts, and the namespaces that it shares
// with the others. A pod of one container may have none that were made to be shared; then they are those of a container
// that runs. The PID namespace is that of the target, if there is one (EphemeralContainer.TargetContainerName).
func (b Specs) join(ctx context.Context, in *worker.SpecInput) error {
	added := podspec.FindEphemeral(&in.Pod.Spec, in.Container.Name)
	if added == nil {
		return nil
	}
	sandbox := *in.Sandbox
	mounts, err := b.Volumes.Ephemeral(ctx, in.Pod, in.Container, sandbox.UsersPath)
	if err != nil {
		return err
	}
	sandbox.Mounts = map[string][]specs.Mount{in.Container.Name: mounts}
	sandbox.Namespaces = maps.Clone(in.Sandbox.Namespaces)
	if sandbox.Namespaces == nil {
		sandbox.Namespaces = map[specs.LinuxNamespaceType]string{}
	}
	in.Sandbox = &sandbox
	if sandbox.Foreign() {
		if added.TargetContainerName != "" {
			return fmt.Errorf("targetContainerName: the pod's OCI runtime shares no processes between containers: %w",
				errdefs.ErrNotImplemented)
		}
		return nil
	}
	running, err := b.running(ctx, in.Pod)
	if err != nil {
		return err
	}
	pin := func(t specs.LinuxNamespaceType, of runtime.Status) (err error) {
		if sandbox.Namespaces[t] == "" {
			sandbox.Namespaces[t], err = b.Processes.Pin(string(in.Pod.UID), of.ID, of.PID, kinds[t])
		}
		return err
	}
	if name := added.TargetContainerName; name != "" && !in.Pod.Spec.HostPID {
		target, ok := running[name]
		if !ok {
			// These are a kubelet's words.
			return fmt.Errorf("unable to find target container %s", name)
		}
		if err := pin(specs.PIDNamespace, target); err != nil {
			return err
		}
	}
	for c := range podspec.Workload(&in.Pod.Spec) {
		of, ok := running[c.Name]
		if !ok {
			continue
		}
		if !in.Pod.Spec.HostIPC {
			err = pin(specs.IPCNamespace, of)
		}
		if err == nil && !in.Pod.Spec.HostNetwork {
			err = pin(specs.NetworkNamespace, of)
		}
		if errors.Is(err, errdefs.ErrNotFound) {
			continue // it has just ended
		}
		if err != nil {
			return err
		}
		break
	}
	return nil
}

// running returns the running containers of a pod, by name.
func (b Specs) running(ctx context.Context, p *corev1.Pod) (map[string]runtime.Status, error) {
	held, err := b.Runtime.Containers(ctx)
	if err != nil {
		return nil, err
	}
	running := map[string]runtime.Status{}
	for _, s := range held {
		if s.PodUID == string(p.UID) && s.State == runtime.Running {
			running[s.Name] = s
		}
	}
	return running, nil
}
