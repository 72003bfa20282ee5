package containerd

import (
	"context"
	"fmt"
	"syscall"

	"github.com/containerd/containerd/v2/core/runtime"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/protobuf/types"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/errdefs"

	jobd "github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
)

// tasks shows the containers in the shards to containerd's own services, and so to ctr: they can be listed, inspected,
// waited for and signalled. Starting and removing them is up to the daemon.
type tasks struct{ runtime *Runtime }

func (t *tasks) ID() string { return plugins.RuntimePluginV2.String() + ".task" }

func (t *tasks) Create(_ context.Context, id string, _ runtime.CreateOpts) (runtime.Task, error) {
	return nil, fmt.Errorf("task %s: containers are started through jobd: %w", id, errdefs.ErrNotImplemented)
}

func (t *tasks) Delete(_ context.Context, id string) (*runtime.Exit, error) {
	return nil, fmt.Errorf("task %s: containers are removed through jobd: %w", id, errdefs.ErrNotImplemented)
}

func (t *tasks) Get(ctx context.Context, id string) (runtime.Task, error) {
	asked, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, err
	}
	t.runtime.mu.Lock()
	defer t.runtime.mu.Unlock()
	c := t.runtime.containers[id]
	if asked != namespace || c == nil || c.status.State == jobd.Created {
		return nil, fmt.Errorf("task %s: %w", id, errdefs.ErrNotFound)
	}
	return &task{runtime: t.runtime, id: id, container: c}, nil
}

func (t *tasks) Tasks(ctx context.Context, all bool) ([]runtime.Task, error) {
	asked, ok := namespaces.Namespace(ctx)
	if !all && (!ok || asked != namespace) {
		return nil, nil
	}
	t.runtime.mu.Lock()
	defer t.runtime.mu.Unlock()
	var out []runtime.Task
	for id, c := range t.runtime.containers {
		if c.status.State != jobd.Created {
			out = append(out, &task{runtime: t.runtime, id: id, container: c})
		}
	}
	return out, nil
}

type task struct {
	runtime   *Runtime
	id        string
	container *container
}

func (t *task) status() jobd.Status {
	t.runtime.mu.Lock()
	defer t.runtime.mu.Unlock()
	return t.container.status
}

func (t *task) ID() string        { return t.id }
func (t *task) Namespace() string { return namespace }

func (t *task) State(context.Context) (runtime.State, error) {
	s := t.status()
	state := runtime.State{
		Status: runtime.StoppedStatus, Pid: uint32(s.PID), ExitStatus: exitStatus(s), ExitedAt: s.FinishedAt,
	}
	if s.State == jobd.Running {
		state.Status = runtime.RunningStatus
	}
	return state, nil
}

// exitStatus returns the exit code of a container, or 255, as containerd does, if it is not known how it ended.
func exitStatus(s jobd.Status) uint32 {
	if s.State == jobd.Lost {
		return 255
	}
	return uint32(s.ExitCode)
}

func (t *task) Kill(ctx context.Context, signal uint32, all bool) error {
	return t.runtime.Signal(ctx, t.id, syscall.Signal(signal), all)
}

func (t *task) Wait(ctx context.Context) (*runtime.Exit, error) {
	select {
	case <-t.container.ended:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s := t.status()
	return &runtime.Exit{Pid: uint32(s.PID), Status: exitStatus(s), Timestamp: s.FinishedAt}, nil
}

func (t *task) PID(context.Context) (uint32, error) { return uint32(t.status().PID), nil }

func (t *task) Pids(context.Context) ([]runtime.ProcessInfo, error) {
	s := t.status()
	if s.State != jobd.Running {
		return nil, nil
	}
	var out []runtime.ProcessInfo
	for _, pid := range t.runtime.Processes(s.PodUID, t.id) {
		out = append(out, runtime.ProcessInfo{Pid: uint32(pid)})
	}
	return out, nil
}

// Processes returns the IDs of the processes of a container, including those of commands that were run in it.
func (r *Runtime) Processes(podUID, id string) (pids []int) {
	parent := r.config.CgroupParent
	for _, group := range []string{cgroup.PodGroup(parent, podUID), parent} { // the container is in one of them
		pids = append(pids, r.cgroups.Processes(group+"/"+id)...)
	}
	return pids
}

func (t *task) Process(_ context.Context, id string) (runtime.ExecProcess, error) {
	return nil, fmt.Errorf("process %s of task %s: %w", id, t.id, errdefs.ErrNotFound)
}

// Usage returns what a container uses now, by its control group.
func (r *Runtime) Usage(podUID, id string) (jobd.Usage, error) {
	parent := r.config.CgroupParent
	for _, group := range []string{cgroup.PodGroup(parent, podUID), parent} { // the container is in one of them
		if u, ok := r.cgroups.Usage(group + "/" + id); ok {
			return jobd.Usage(u), nil
		}
	}
	return jobd.Usage{}, fmt.Errorf("usage of container %s: %w", id, errdefs.ErrNotFound)
}

// HeldByPods returns how much memory all pods hold (jobd.Usage.Held), with that of containers that have ended.
func (r *Runtime) HeldByPods() int64 {
	all, _ := r.cgroups.Usage(r.config.CgroupParent)
	return all.Held
}

// HeldByPod returns how much memory a pod holds, of whose containers are named those that have not been removed: with that which
// others have left in its group.
func (r *Runtime) HeldByPod(podUID string, ids []string) int64 {
	parent := r.config.CgroupParent
	whole, _ := r.cgroups.Usage(cgroup.PodGroup(parent, podUID))
	held := whole.Held
	for _, id := range ids {
		outside, _ := r.cgroups.Usage(parent + "/" + id)
		held += outside.Held
	}
	return held
}

func (t *task) unsupported(what string) error {
	return fmt.Errorf("%s of task %s: %w", what, t.id, errdefs.ErrNotImplemented)
}

func (t *task) Start(context.Context) error { return t.unsupported("start") }
func (t *task) Exec(context.Context, string, runtime.ExecOpts) (runtime.ExecProcess, error) {
	return nil, t.unsupported("exec")
}
func (t *task) ResizePty(context.Context, runtime.ConsoleSize) error { return t.unsupported("resize") }
func (t *task) CloseIO(context.Context) error                        { return t.unsupported("stdin") }
func (t *task) Pause(context.Context) error                          { return t.unsupported("pause") }
func (t *task) Resume(context.Context) error                         { return t.unsupported("resume") }
func (t *task) Checkpoint(context.Context, string, *types.Any) error {
	return t.unsupported("checkpoint")
}
func (t *task) Update(context.Context, *types.Any, map[string]string) error {
	return t.unsupported("update")
}
func (t *task) Stats(context.Context) (*types.Any, error) { return nil, t.unsupported("figures") }
