package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
)

// launch is one start of a container that was asked for and has not been reported yet.
type launch struct {
	container string
	attempt   int
	ctx       context.Context // ends when the launch is called off
	cancel    context.CancelFunc

	// Guarded by Workers.mu.
	stop *Action      // what it was called off by, nil unless it was
	exit *Observation // the container has ended before its start was reported

	image runtime.Image
	err   error
	ready chan struct{} // closed when the image is here, or err says why not

	once    sync.Once
	began   time.Time     // of the pull
	pulling chan struct{} // closed when the image is not here and is being pulled
}

func (w *Workers) newLaunch(a Action) *launch {
	l := &launch{container: a.Container, attempt: a.Attempt, ready: make(chan struct{}), pulling: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(w.ctx)
	return l
}

// launching gives the launch of an attempt that is queued or under way. Workers.mu is held.
func (p *worker) launching(container string, attempt int) *launch {
	for _, l := range p.launches {
		if l.container == container && l.attempt == attempt {
			return l
		}
	}
	return nil
}

// callOff asks for the launch not to happen, or the container to be stopped once it has. Workers.mu is held.
func (l *launch) callOff(by Action) {
	l.stop = &by
	l.cancel()
}

// calledOff tells whether the launch was called off.
func (w *Workers) calledOff(l *launch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.stop != nil
}

// launch starts containers of one pod: the steps, if they were not done, and the images at the same time; then one
// container after the other. What is observed is reported together, but for what is slow.
func (w *Workers) launch(pod *corev1.Pod, p *worker, launches []*launch) {
	for _, l := range launches {
		w.group.Go(func() { w.ensure(pod, l) })
	}
	var seen []Observation
	if p.sandbox == nil {
		o, ok := w.setUp(pod, p, launches[0].ctx)
		if !ok {
			for _, l := range launches {
				l.cancel()
				<-l.ready
				o.Container, o.Attempt = l.container, l.attempt
				seen = append(seen, o)
			}
			w.launched(pod, p, launches, seen)
			return
		}
		seen = append(seen, o)
	}
	done := 0
	for i, l := range launches {
		if l.slow() {
			// An image that takes its time holds up neither other pods nor what is known already.
			w.launched(pod, p, launches[done:i], seen)
			seen, done = nil, i
			w.slots.away(func() { <-l.ready })
		}
		seen = append(seen, w.start(pod, p, l)...)
	}
	w.launched(pod, p, launches[done:], seen)
}

// launched reports what came of launches. From now on their exits are reported as they come.
func (w *Workers) launched(pod *corev1.Pod, p *worker, launches []*launch, seen []Observation) {
	w.mu.Lock()
	if w.ctx.Err() != nil {
		w.mu.Unlock()
		return
	}
	for _, l := range launches {
		l.cancel()
		if l.exit != nil {
			seen = append(seen, *l.exit)
		}
		// This clears what is behind the end too: a launch would be kept for as long as its pod.
		p.launches = slices.DeleteFunc(p.launches, func(other *launch) bool { return other == l })
	}
	for i := range seen {
		seen[i].Later = shownOnly(pod, seen[i])
	}
	// Under the lock, so that nothing overtakes it.
	w.report(pod, seen...)
	crash.At("launch.reported")
	for _, o := range seen {
		ended := func(other Observation) bool {
			return (other.What == Exited || other.What == Lost) && other.Container == o.Container && other.Attempt == o.Attempt
		}
		if o.What == Started && !slices.ContainsFunc(seen, ended) {
			w.watch(pod, p, o)
			w.stopStarted(pod, launches, o)
		}
	}
	w.mu.Unlock()
}

// stopStarted stops a container that has started although its launch was called off: that came too late for the launch, and
// before anybody could know of a container. Workers.mu is held.
func (w *Workers) stopStarted(pod *corev1.Pod, launches []*launch, o Observation) {
	for _, l := range launches {
		if l.container == o.Container && l.attempt == o.Attempt && l.stop != nil && l.stop.Kind == Stop {
			w.group.Go(func() { w.stop(pod, *l.stop) })
		}
	}
}

// shownOnly tells of an observation that no other container waits for.
func shownOnly(pod *corev1.Pod, o Observation) bool {
	switch o.What {
	case SetUp, Pulled:
		return true
	case Started:
		return !find(pod, o.Container).init
	}
	return false
}

// slow waits for the image, unless it has to be pulled and that is not done.
func (l *launch) slow() bool {
	select {
	case <-l.ready:
		return false
	case <-l.pulling:
	}
	select {
	case <-l.ready:
		return false
	default:
		return true
	}
}

// ensure makes the image of a launch be here.
func (w *Workers) ensure(pod *corev1.Pod, l *launch) {
	defer close(l.ready)
	c := find(pod, l.container).spec
	crash.At("launch.image.before")
	var secrets []corev1.Secret
	var missing []string
	if len(pod.Spec.ImagePullSecrets) > 0 && w.config.PullSecrets != nil {
		secrets, missing = w.config.PullSecrets(pod)
	}
	l.image, l.err = w.config.Images.Ensure(l.ctx, c.Image, c.ImagePullPolicy, secrets, func(string) {
		l.once.Do(func() {
			l.began = time.Now()
			close(l.pulling)
			w.report(pod, Observation{What: Pulling, Container: l.container, Attempt: l.attempt, Message: strings.Join(missing, ", ")})
		})
	})
	crash.At("launch.image.after")
}

// setUp takes the steps. It tells whether all are done.
func (w *Workers) setUp(pod *corev1.Pod, p *worker, ctx context.Context) (Observation, bool) {
	sandbox := &Sandbox{Away: w.slots.away}
	for _, step := range w.config.Steps {
		crash.At("set-up", step.Name, "before")
		if err := step.SetUp(ctx, pod, sandbox); err != nil {
			w.log(pod).Warn("pod set-up failed", "step", step.Name, "error", err)
			if r := (*Rejection)(nil); errors.As(err, &r) {
				return Observation{What: Rejected, Reason: step.Reason, Message: r.Error()}, false
			}
			return Observation{What: SetUpFailed, Reason: step.Reason, Message: err.Error()}, false
		}
		crash.At("set-up", step.Name, "after")
	}
	w.mu.Lock()
	p.sandbox = sandbox
	w.mu.Unlock()
	return Observation{What: SetUp, IPs: sandbox.IPs}, true
}

// start starts one container and says what there was to see.
func (w *Workers) start(pod *corev1.Pod, p *worker, l *launch) (seen []Observation) {
	about := Observation{Container: l.container, Attempt: l.attempt, At: time.Now()}
	fail := func(reason string, err error) []Observation {
		about.What, about.Reason, about.Message = StartFailed, reason, err.Error()
		return append(seen, about)
	}
	dropped := func() []Observation {
		about.What = Dropped
		return append(seen, about)
	}
	if w.calledOff(l) {
		return dropped()
	}
	c := find(pod, l.container).spec
	if l.err != nil {
		if errors.Is(l.err, context.Canceled) && w.calledOff(l) {
			return dropped()
		}
		return fail(imageFailure(c, l.err))
	}
	pulled := about
	pulled.What, pulled.Image = Pulled, l.image
	select {
	case <-l.pulling:
		pulled.Took = max(about.At.Sub(l.began), 1)
	default:
	}
	seen = append(seen, pulled)

	crash.At("launch.spec.before")
	spec, err := w.config.Spec.Spec(l.ctx, SpecInput{pod, c, l.attempt, l.image, p.sandbox})
	if err != nil {
		return fail(CreateContainerConfig, err)
	}
	request := runtime.Container{
		ID: containerID(pod, c.Name, l.attempt), PodUID: string(pod.UID), Name: c.Name, Attempt: l.attempt,
		Image: l.image, Spec: spec, Stdin: c.Stdin, StdinOnce: c.StdinOnce, Alone: alone(pod, p.sandbox),
	}
	crash.At("launch.spec.after")
	if w.config.LogPath != nil {
		request.LogPath = w.config.LogPath(pod, c.Name, l.attempt)
		request.LogMaxSize, request.LogMaxFiles = w.config.LogMaxSize, w.config.LogMaxFiles
		if w.config.BeginLogs != nil {
			if err := w.config.BeginLogs(pod, c.Name, l.attempt); err != nil {
				return fail(CreateContainer, fmt.Errorf("directory of the log: %w", err))
			}
		}
		if err := os.MkdirAll(filepath.Dir(request.LogPath), 0o755); err != nil {
			return fail(CreateContainer, fmt.Errorf("directory of the log: %w", err))
		}
	}
	if l.attempt > 0 {
		crash.At("launch.attempt-before.before")
		// Its end is stored, or this attempt would not have been asked for.
		if err := w.config.Runtime.Remove(w.ctx, containerID(pod, c.Name, l.attempt-1)); err != nil {
			return fail(CreateContainer, fmt.Errorf("remove the container of the attempt before: %w", err))
		}
	}
	if w.calledOff(l) {
		return dropped()
	}
	crash.At("launch.start.before")
	w.follow(c, request.ID, request.LogPath)
	status, err := w.config.Runtime.Start(w.ctx, request)
	if err != nil {
		if w.ctx.Err() == nil {
			w.log(pod).Warn("container start failed", "container", c.Name, "error", err)
		}
		return fail(CreateContainer, err)
	}
	crash.At("launch.start.after")
	about.At, about.Image, about.Status = time.Now(), l.image, status
	switch status.State {
	case runtime.Running:
		about.What = Started
	case runtime.Exited:
		if diskFull(status) {
			if err := w.config.Runtime.Remove(w.ctx, request.ID); err != nil {
				return fail(CreateContainer, fmt.Errorf("remove what the disk had no room for: %w", err))
			}
			return fail(CreateContainer, errors.New(status.StartError))
		}
		about.What = Exited
		about.Status.Message = w.terminationMessage(status)
	case runtime.Lost:
		about.What = Lost
	default:
		return fail(CreateContainer, fmt.Errorf("container %s is %s after its start", request.ID, status.State))
	}
	return append(seen, about)
}

// diskFull tells that a container could not be started for want of room. That is no fault of its own: it is started again,
// as one for which the room was found wanting before. There are only the words of the OCI runtime to go by, which end with
// those of the kernel's error; names that it quotes may say anything.
func diskFull(s runtime.Status) bool {
	return strings.HasSuffix(strings.ToLower(strings.TrimSpace(s.StartError)), ": "+syscall.ENOSPC.Error())
}

// imageFailure is the waiting reason and message for an image that could not be had.
func imageFailure(c *corev1.Container, err error) (string, error) {
	switch {
	case c.ImagePullPolicy == corev1.PullNever && errdefs.IsNotFound(err):
		return ErrImageNeverPull, fmt.Errorf("Container image %q is not present with pull policy of Never", c.Image) // a kubelet's words
	case errdefs.IsInvalidArgument(err):
		return InvalidImageName, err
	}
	return ErrImagePull, err
}
