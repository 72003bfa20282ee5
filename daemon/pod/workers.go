package pod

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/devices"
)

// Images makes images be here.
type Images interface {
	// Ensure returns the image that ref names, and gets it first where the policy asks for that. Progress is called
	// only when it has to be got: at once, and as often as there is something to tell. Errors: ErrNotFound with
	// PullNever, ErrInvalidArgument for a reference that is none; anything else is one of the registry. The secrets hold
	// credentials for it.
	Ensure(ctx context.Context, ref string, policy corev1.PullPolicy, secrets []corev1.Secret, progress func(string)) (runtime.Image, error)
}

// SpecBuilder makes the OCI spec of a container. Its errors are shown as CreateContainerConfigError.
type SpecBuilder interface {
	Spec(ctx context.Context, in SpecInput) (*specs.Spec, error)
}

// SpecInput is what the spec of a container is made from.
type SpecInput struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	Attempt   int
	Image     runtime.Image
	Sandbox   *Sandbox
}

// Sandbox is what the set-up steps of a pod leave for its containers. Each step fills in its part, again after a
// restart of the daemon.
type Sandbox struct {
	// IPs are the pod's addresses, the first one first.
	IPs []string
	// HostNetwork: the network is the host's.
	HostNetwork bool
	// Namespaces are the paths of the namespaces that the containers share.
	Namespaces map[specs.LinuxNamespaceType]string
	// Mounts are those of the pod's volumes, whole, by the container's name.
	Mounts map[string][]specs.Mount
	// Cgroup is the one that those of the containers are in. Empty: they are beside those of all pods.
	Cgroup string
	// Devices are those that the containers have got.
	Devices devices.Assigned
	// Away lets other pods be worked on while a step waits for them.
	Away func(wait func())
}

// Step is one thing that is set up for a pod before its first container is started, and undone after the last one.
// SetUp and TearDown may be taken again at any time.
type Step struct {
	Name string
	// Reason is that of the event when SetUp fails: FailedMount, FailedCreateSandbox, ...
	Reason string
	SetUp  func(ctx context.Context, pod *corev1.Pod, sandbox *Sandbox) error
	// Refresh brings up to date what SetUp has made, as far as it has. May be nil.
	Refresh func(ctx context.Context, pod *corev1.Pod) error
	// Measure says what a pod takes too much of, empty if nothing. May be nil.
	Measure  func(pod *corev1.Pod) string
	TearDown func(ctx context.Context, uid types.UID) error
	// Held lists the pods that something is set up for, so that Recover finds what an older run has left. May be nil.
	Held func(ctx context.Context) ([]types.UID, error)
}

// Config is what Workers need.
type Config struct {
	Runtime runtime.Runtime
	Images  Images
	// PullSecrets gives the Secrets with a pod's credentials for registries, and the names of those that cannot be had. It
	// is asked only for a pod that names some. Nil: there are none.
	PullSecrets func(pod *corev1.Pod) (secrets []corev1.Secret, missing []string)
	Spec        SpecBuilder
	// Steps are taken in order and undone in reverse.
	Steps []Step
	// LogPath is the file for the output of a container; its directory is made. Nil: there is none.
	LogPath func(pod *corev1.Pod, container string, attempt int) string
	// LogMaxSize is how large the file grows before it is rotated, 0 is no limit; LogMaxFiles are kept.
	LogMaxSize  int64
	LogMaxFiles int
	// BeginLogs is called before that directory is made. Nil: there is nothing to be done.
	BeginLogs func(pod *corev1.Pod, container string, attempt int) error
	// Report takes observations. It must neither block nor call the Workers.
	Report func([]Observation)
	// Parallel is how many pods are worked on at a time. Default: 16.
	Parallel int
	Logger   *slog.Logger
}

const defaultParallel = 16

// Workers take actions. There is an order for each pod, pods go in parallel, and a pod that needs nothing has no
// goroutine.
type Workers struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup
	slots  slots

	mu   sync.Mutex
	pods map[types.UID]*worker
	// tails are the logs of running containers that may have to give the termination message, by container id.
	tails map[string]string
	// monitors end the checks of running containers, by container id.
	monitors map[string]context.CancelFunc
}

// worker is what is known of one pod between its first launch and its tear-down.
type worker struct {
	pod     *corev1.Pod // as it was given last; nil when there is nothing to do for it
	queue   []Action
	busy    bool
	sandbox *Sandbox // nil until the steps are done
	// launches are those that are queued or under way.
	launches []*launch
	// leftovers are containers that are to be removed beside those that the pod's status knows.
	leftovers []string
	failed    int // tear-downs that failed in a row
}

// NewWorkers starts nothing: goroutines live as long as there are actions. It takes the runtime's OnExit.
func NewWorkers(c Config) *Workers {
	if c.Parallel <= 0 {
		c.Parallel = defaultParallel
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Workers{config: c, slots: slots{free: c.Parallel}, pods: map[types.UID]*worker{}, tails: map[string]string{}, monitors: map[string]context.CancelFunc{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	c.Runtime.OnExit(w.onExit)
	return w
}

// Close waits until no action is under way; those that wait are dropped. Containers go on.
func (w *Workers) Close() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.group.Wait()
}

// Do takes the actions of one pod, in the order given and after those given before; but a Stop overtakes launches, and
// so does a TearDown, which ends what runs. It returns at once. The pod must not be changed afterwards.
func (w *Workers) Do(pod *corev1.Pod, actions []Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	p := w.pods[pod.UID]
	if p == nil {
		p = &worker{}
		w.pods[pod.UID] = p
	}
	p.pod = pod
	for _, a := range actions {
		switch l := p.launching(a.Container, a.Attempt); {
		case a.Kind == TearDown:
			for _, l := range p.launches {
				l.callOff(a)
			}
			// What it would look at goes.
			p.queue = slices.DeleteFunc(p.queue, func(q Action) bool { return q.Kind == Refresh || q.Kind == Measure })
			p.queue = append(p.queue, a)
		case a.Kind == Launch && l == nil:
			p.launches = append(p.launches, w.newLaunch(a))
			p.queue = append(p.queue, a)
		case a.Kind == Refresh || a.Kind == Measure:
			// One that waits will see all that this one would.
			if !slices.ContainsFunc(p.queue, func(q Action) bool { return q.Kind == a.Kind }) {
				p.queue = append(p.queue, a)
			}
		case a.Kind == Stop && l != nil:
			l.callOff(a)
		case a.Kind == Stop:
			w.group.Go(func() { w.stop(pod, a) })
		}
	}
	w.schedule(p)
}

// schedule lets the pod's queue be worked off, when nobody does it already.
func (w *Workers) schedule(p *worker) {
	if p.busy || len(p.queue) == 0 || w.ctx.Err() != nil {
		return
	}
	p.busy = true
	w.group.Add(1)
	w.slots.run(func() {
		defer w.group.Done()
		w.work(p)
	})
}

// work takes the actions of one pod until there are none.
func (w *Workers) work(p *worker) {
	for {
		w.mu.Lock()
		if len(p.queue) == 0 || w.ctx.Err() != nil {
			p.busy, p.pod, p.queue = false, nil, nil // its room too: of 100,000 pods that is 10 MB
			w.mu.Unlock()
			return
		}
		pod := p.pod
		var launches []*launch
		first := p.queue[0]
		p.queue = p.queue[1:]
		if first.Kind == Launch {
			// All that wait together are one launch: set up once, reported once.
			launches = append(launches, p.launching(first.Container, first.Attempt))
			for len(p.queue) > 0 && p.queue[0].Kind == Launch {
				launches = append(launches, p.launching(p.queue[0].Container, p.queue[0].Attempt))
				p.queue = p.queue[1:]
			}
		}
		w.mu.Unlock()
		switch first.Kind {
		case TearDown:
			w.tearDown(pod, p)
		case Refresh:
			w.refresh(pod)
		case Measure:
			w.measure(pod)
		default:
			w.launch(pod, p, launches)
		}
	}
}

// refresh lets each step bring up to date what it has set up. What fails stays as it was.
func (w *Workers) refresh(pod *corev1.Pod) {
	for _, step := range w.config.Steps {
		if step.Refresh == nil {
			continue
		}
		if err := step.Refresh(w.ctx, pod); err != nil {
			w.log(pod).Warn("refresh", "step", step.Name, "error", err)
		}
	}
}

// measure reports a pod that takes more than it may.
func (w *Workers) measure(pod *corev1.Pod) {
	for _, step := range w.config.Steps {
		if step.Measure == nil {
			continue
		}
		if over := step.Measure(pod); over != "" {
			w.report(pod, Observation{What: Evicted, Message: over})
		}
	}
}

// report hands observations to the loop.
func (w *Workers) report(pod *corev1.Pod, observations ...Observation) {
	if len(observations) == 0 {
		return
	}
	for i := range observations {
		o := &observations[i]
		o.UID, o.Namespace, o.Name = pod.UID, pod.Namespace, pod.Name
		if o.At.IsZero() {
			o.At = time.Now()
		}
	}
	w.config.Report(observations)
}

// log gives the logger for one pod.
func (w *Workers) log(pod *corev1.Pod) *slog.Logger {
	return w.config.Logger.With("pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
}

// containerID is that of one attempt of a container of the pod.
func containerID(pod *corev1.Pod, container string, attempt int) string {
	return runtime.ContainerID(string(pod.UID), container, attempt)
}
