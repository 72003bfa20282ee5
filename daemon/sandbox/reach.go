package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/netns"
)

// Reach connects to the containers of pods. It implements api/server's Containers.
type Reach struct {
	Runtime runtime.Runtime
	// Address is that of worker.Config.
	Address func(*corev1.Pod) string
}

// Exec runs a command in the newest attempt of a container.
func (x Reach) Exec(ctx context.Context, p *corev1.Pod, container string, e runtime.ExecRequest) (int, error) {
	id, err := runningContainer(p, container)
	if err != nil {
		return 0, err
	}
	return x.Runtime.Exec(ctx, id, e)
}

// Attach connects to the newest attempt of a container.
func (x Reach) Attach(ctx context.Context, p *corev1.Pod, container string, a runtime.AttachRequest) error {
	id, err := runningContainer(p, container)
	if err != nil {
		return err
	}
	return x.Runtime.Attach(ctx, id, a)
}

func runningContainer(p *corev1.Pod, container string) (id string, err error) {
	status := podspec.ContainerStatus(p, container)
	if status == nil || status.State.Running == nil {
		return "", fmt.Errorf("container %s of pod %s/%s does not run: %w",
			container, p.Namespace, p.Name, errdefs.ErrNotFound)
	}
	return runtime.ContainerID(string(p.UID), container, int(status.RestartCount)), nil
}

// Dial connects to a port of localhost inside the pod, with IPv4 first.
func (x Reach) Dial(ctx context.Context, p *corev1.Pod, port uint16) (net.Conn, error) {
	at, err := x.running(ctx, p)
	if err != nil {
		return nil, err
	}
	conn, err4 := netns.Dial(ctx, at.ID, at.PID, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err4 == nil {
		return conn, nil
	}
	conn, err6 := netns.Dial(ctx, at.ID, at.PID, "tcp6", net.JoinHostPort("::1", strconv.Itoa(int(port))))
	if err6 == nil {
		return conn, nil
	}
	return nil, fmt.Errorf("failed to connect to localhost:%d inside the network of pod %s/%s, IPv4: %w IPv6: %w",
		port, p.Namespace, p.Name, err4, err6)
}

// DialAddress connects to a TCP port of a pod's address, from within its network. The address is the one that the network has
// on record: that of a pod in the host's network would otherwise lead anywhere from there.
func (x Reach) DialAddress(ctx context.Context, p *corev1.Pod, to netip.AddrPort) (net.Conn, error) {
	at, err := x.running(ctx, p)
	if err != nil {
		return nil, err
	}
	if x.Address != nil && x.Address(p) != to.Addr().String() {
		return nil, fmt.Errorf("pod %s/%s does not have the address %s of its status: %w",
			p.Namespace, p.Name, to.Addr(), errdefs.ErrFailedPrecondition)
	}
	return netns.Dial(ctx, at.ID, at.PID, "tcp", to.String())
}

// running returns a container of a pod that runs.
func (x Reach) running(ctx context.Context, p *corev1.Pod) (runtime.Status, error) {
	held, err := x.Runtime.Containers(ctx)
	if err != nil {
		return runtime.Status{}, err
	}
	i := slices.IndexFunc(held, func(s runtime.Status) bool {
		return s.PodUID == string(p.UID) && s.State == runtime.Running
	})
	if i < 0 {
		return runtime.Status{}, fmt.Errorf("no process of pod %s/%s runs: %w", p.Namespace, p.Name, errdefs.ErrNotFound)
	}
	return held[i], nil
}
