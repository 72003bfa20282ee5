package worker

import (
	"context"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/devices"
)

// Sandbox is what the set-up steps of a pod provide for its containers. Each step fills in its part, once more after a
// restart of the daemon.
type Sandbox struct {
	// IPs are the pod's addresses, the primary one first.
	IPs []string
	// HostNetwork says that the network is the host's.
	HostNetwork bool
	// Namespaces are the paths of the namespaces that the containers share.
	Namespaces map[specs.LinuxNamespaceType]string
	// Users are those of the pod's own user namespace, whose path is one of Namespaces; nil: it is in the host's.
	Users *specs.LinuxIDMapping
	// UsersPath is a path by which the daemon and its children reach that user namespace. Empty: it is the host's.
	UsersPath string
	// Mounts are the mounts of volumes, by the container's name.
	Mounts map[string][]specs.Mount
	// SharedMemory is what the containers share at /dev/shm. Empty: each has its own there, or the host's.
	SharedMemory string
	// Cgroup is the parent of the containers' control groups. Empty: they are beside those of all pods.
	Cgroup string
	// Handler is the OCI runtime of the containers; nil: the ordinary one.
	Handler *runtime.Handler
	// Devices are those assigned to the containers.
	Devices devices.Assigned
	// Yield lets other pods be worked on while wait blocks a step. It is nil outside of the steps.
	Yield func(wait func())
}

// Foreign reports whether the containers have an OCI runtime that is neither crun nor runc.
func (s *Sandbox) Foreign() bool { return s.Handler != nil && s.Handler.Foreign }

// Step is one thing that is set up for a pod before its first container is started, and undone after the last one has
// ended. SetUp and TearDown must be idempotent.
type Step struct {
	Name string
	// Reason is that of the event when SetUp fails: FailedMount, FailedCreatePodSandBox, ...
	Reason string
	SetUp  func(ctx context.Context, obj *corev1.Pod, sandbox *Sandbox) error
	// Refresh brings up to date what SetUp has made, if it has. May be nil.
	Refresh func(ctx context.Context, obj *corev1.Pod) error
	// Measure returns what a pod takes too much of, in the words of the eviction; empty if nothing, or if ctx ends first. May be nil.
	Measure func(ctx context.Context, obj *corev1.Pod) string
	// Resize gives running containers the resources that the pod says. With loosen other containers keep theirs for now,
	// and the limits of the whole pod may only become wider. May be nil.
	Resize func(ctx context.Context, obj *corev1.Pod, running []Running, loosen bool) error
	// Leave is told whose TearDown comes next, what was set up after this step being undone. May be nil.
	Leave    func(ctx context.Context, obj *corev1.Pod)
	TearDown func(ctx context.Context, uid types.UID) error
	// Held lists the pods that something is set up for, so that Recover finds what a previous run has left. May be nil.
	Held func(ctx context.Context) ([]types.UID, error)
}

// Running is a container that runs, and the runtime's name for it.
type Running struct {
	Container *corev1.Container
	ID        string
}

// Rejection is the error of a Step that finds that this machine does not take the pod at all, as a kubelet does not
// admit one. The Step's Reason becomes the pod's.
type Rejection struct{ Err error }

func (r *Rejection) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Rejection) Unwrap() error { return r.Err }

// refresh has each step bring up to date what it has set up. Where that fails, all stays as it was.
func (p *Pool) refresh(obj *corev1.Pod, w *worker) {
	for _, step := range p.config.Steps {
		if step.Refresh == nil {
			continue
		}
		var err error
		p.take(obj, w, "refresh of "+step.Name, func() { err = step.Refresh(p.ctx, obj) })
		if err != nil {
			p.log(obj).Warn("cannot refresh what a pod was set up with", "step", step.Name, "error", err)
		}
	}
}

// measure reports the pod for eviction if a step finds that it takes more than it may.
func (p *Pool) measure(obj *corev1.Pod, w *worker) {
	ctx, cancel := context.WithCancel(p.ctx)
	set := func(calm context.CancelFunc) {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.calm = calm
	}
	set(cancel)
	defer cancel()
	defer set(nil)
	for _, step := range p.config.Steps {
		if step.Measure == nil {
			continue
		}
		var over string
		p.take(obj, w, "measurement of "+step.Name, func() {
			began := time.Now()
			over = step.Measure(ctx, obj)
			p.pace.took(obj.Namespace, obj.UID, time.Since(began))
		})
		if over != "" {
			p.report(obj, duty.Observation{What: duty.Evicted, Message: over})
		}
	}
}

// resize gives the running containers of a pod the resources that the pod has now, except for those that have to be
// restarted for it.
func (p *Pool) resize(obj *corev1.Pod, w *worker) {
	o := duty.Observation{What: duty.Resized, OK: true, Resized: &duty.Resizing{Whole: obj.Spec.Resources}}
	var running []Running
	for _, a := range pod.Newest(obj) {
		switch {
		case !a.Running || a.Container.Name == "":
		case pod.RestartsToResize(obj, a.Container.Name):
			o.Resized.Partial = true
		default:
			running = append(running, Running{a.Container, containerID(obj, a.Container.Name, a.Number)})
			o.Resized.Containers = append(o.Resized.Containers,
				duty.ResizedContainer{Name: a.Container.Name, Attempt: a.Number, Resources: a.Container.Resources})
		}
	}
	for _, step := range p.config.Steps {
		if step.Resize == nil {
			continue
		}
		var err error
		p.take(obj, w, "resize by "+step.Name, func() { err = step.Resize(p.ctx, obj, running, o.Resized.Partial) })
		if err != nil {
			o.OK, o.Message = false, err.Error()
			break
		}
	}
	p.report(obj, o)
}
