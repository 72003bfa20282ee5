package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
)

// launch is one start of a container that was asked for and has not been reported yet.
type launch struct {
	container string
	attempt   int
	ctx       context.Context // ends when the launch is called off
	cancel    context.CancelFunc

	// Guarded by Pool.mu.
	stop *duty.Action      // what it was called off by, nil unless it was
	exit *duty.Observation // the container has ended before its start was reported
	hook func()            // ends the postStart hook, nil unless that runs

	image   pulledImage
	volumes []pulledImage // those of the image volumes that the container mounts
	err     error
	failed  neededImage   // what err is about
	ready   chan struct{} // closed when the images or err are set

	once    sync.Once
	pulling chan struct{} // closed when an image is not present and is being pulled
}

func (p *Pool) newLaunch(a duty.Action) *launch {
	l := &launch{container: a.Container, attempt: a.Attempt, ready: make(chan struct{}), pulling: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	return l
}

// launching returns the launch of an attempt that is queued or under way, nil if there is none. Pool.mu is held.
func (w *worker) launching(container string, attempt int) *launch {
	for _, l := range w.launches {
		if l.container == container && l.attempt == attempt {
			return l
		}
	}
	return nil
}

// callOff cancels the launch. If it is too late for that, the container is stopped once it has started. Pool.mu is
// held.
func (l *launch) callOff(by duty.Action) {
	l.stop = &by
	l.cancel()
}

// calledOff reports whether the launch was called off.
func (p *Pool) calledOff(l *launch) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.stop != nil
}

// launch starts containers of one pod: it takes the set-up steps, if that was not done, while the images are pulled,
// and then starts one container after the other. All that is observed is reported together, unless an image or a
// postStart hook has to be waited for.
func (p *Pool) launch(obj *corev1.Pod, w *worker, launches []*launch) {
	if p.config.Begin != nil {
		p.config.Begin()
	}
	secrets := sync.OnceValue(func() pullSecrets { return p.pullSecrets(obj) })
	for _, l := range launches {
		p.beside(obj, func() { p.ensure(obj, l, secrets()) })
	}
	var seen []duty.Observation
	if w.sandbox == nil {
		o, ok := p.setUp(obj, w, launches[0].ctx)
		if !ok {
			for _, l := range launches {
				l.cancel()
				<-l.ready
				about := o
				if p.calledOff(l) {
					about = duty.Observation{What: duty.Dropped, At: time.Now()}
				}
				about.Container, about.Attempt = l.container, l.attempt
				seen = append(seen, about)
			}
			p.launched(obj, w, launches, seen)
			return
		}
		seen = append(seen, o)
	}
	done := 0
	for i, l := range launches {
		var slow bool
		p.take(obj, w, "image of container "+l.container, func() { slow = l.slow() })
		if slow {
			// A slow pull holds up neither other pods nor the report of what has happened already.
			p.launched(obj, w, launches[done:i], seen)
			seen, done = nil, i
			w.slot.Yield(func() { <-l.ready })
		}
		seen = append(seen, p.start(obj, w, l)...)
		if duty.HasPostStart(podspec.Find(&obj.Spec, l.container)) && seen[len(seen)-1].What == duty.Started {
			started := seen[len(seen)-1]
			p.launched(obj, w, launches[done:i], seen[:len(seen)-1])
			p.launched(obj, w, launches[i:i+1], append([]duty.Observation{started}, p.postStart(obj, w, l, started)...))
			seen, done = nil, i+1
		}
		if p.ctx.Err() != nil {
			return
		}
	}
	p.launched(obj, w, launches[done:], seen)
}

// postStart runs the postStart hook of a container that has just been started, and returns what came of it: nothing if it
// was cut short because the container has ended or is to end. The containers after it wait for that, and its own start is
// reported only then, so that it is shown as in a cluster. A daemon that ends meanwhile leaves no record of the start, so
// that the next one launches all of them again, finds this container running, and runs the hook once more.
func (p *Pool) postStart(obj *corev1.Pod, w *worker, l *launch, started duty.Observation) (seen []duty.Observation) {
	m := p.newMonitor(obj, w, started)
	ctx, end := context.WithCancel(l.ctx)
	defer end()
	p.mu.Lock()
	l.hook = end
	if l.exit != nil {
		end()
	}
	p.mu.Unlock()
	w.slot.Yield(func() {
		if o, ok := m.postStart(ctx); ok {
			seen = append(seen, o)
		}
	})
	return seen
}

// launched reports what came of launches. From now on exits of their containers are reported as they come.
func (p *Pool) launched(obj *corev1.Pod, w *worker, launches []*launch, seen []duty.Observation) {
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		return
	}
	for _, l := range launches {
		l.cancel()
		if l.exit != nil {
			seen = append(seen, *l.exit)
		}
		// DeleteFunc clears the elements behind the end as well: else launches would be kept for as long as their pod.
		w.launches = slices.DeleteFunc(w.launches, func(other *launch) bool { return other == l })
	}
	for i := range seen {
		seen[i].Later = shownOnly(obj, seen[i])
	}
	// The lock is held, so that no exit is reported before this.
	p.report(obj, seen...)
	crash.At("launch.reported")
	for _, o := range seen {
		ended := func(other duty.Observation) bool {
			return (other.What == duty.Exited || other.What == duty.Lost) &&
				other.Container == o.Container && other.Attempt == o.Attempt
		}
		if o.What == duty.Started && !slices.ContainsFunc(seen, ended) {
			p.watch(obj, w, o, seen)
			p.stopStarted(obj, launches, o)
		}
	}
	p.mu.Unlock()
}

// stopStarted stops a container that has started although its launch was called off. The Stop came too late for the
// launch, and before the container was reported. Pool.mu is held.
func (p *Pool) stopStarted(obj *corev1.Pod, launches []*launch, o duty.Observation) {
	for _, l := range launches {
		if l.container == o.Container && l.attempt == o.Attempt && l.stop != nil && l.stop.Kind == duty.Stop {
			p.beside(obj, func() { p.stop(obj, *l.stop) })
		}
	}
}

// shownOnly reports whether an observation is only shown to users: no other container waits for it.
func shownOnly(obj *corev1.Pod, o duty.Observation) bool {
	switch o.What {
	case duty.SetUp, duty.Pulled, duty.Doubted:
		return true
	case duty.Started:
		init := func(c corev1.Container) bool { return c.Name == o.Container }
		return !slices.ContainsFunc(obj.Spec.InitContainers, init)
	}
	return false
}

// slow waits for the image, and reports whether it is being pulled instead.
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

// neededImage is an image that a container needs: its own, or that of a volume.
type neededImage struct {
	volume string // empty for its own
	ref    string
	policy corev1.PullPolicy
}

type pulledImage struct {
	neededImage
	runtime.Image
	took time.Duration // 0 if it was there
}

// imageVolumes returns the images that a container mounts, each once.
func imageVolumes(obj *corev1.Pod, c *corev1.Container) (out []neededImage) {
	mounted := sets.New[string]()
	for i := range c.VolumeMounts {
		mounted.Insert(c.VolumeMounts[i].Name)
	}
	for i := range obj.Spec.Volumes {
		if v := &obj.Spec.Volumes[i]; v.Image != nil && mounted.Has(v.Name) {
			out = append(out, neededImage{v.Name, v.Image.Reference, v.Image.PullPolicy})
		}
	}
	return out
}

// pullSecrets are the credentials of a pod for registries.
type pullSecrets struct {
	own     *runtime.PullSecrets
	missing string // the names of those that cannot be had
	err     error
}

// maxMissing is how many names of missing Secrets are told: an event has no room for thousands.
const maxMissing = 20

func (p *Pool) pullSecrets(obj *corev1.Pod) pullSecrets {
	if len(obj.Spec.ImagePullSecrets) == 0 || p.config.PullSecrets == nil {
		return pullSecrets{}
	}
	secrets, missing, err := p.config.PullSecrets(obj)
	if more := len(missing) - maxMissing; more > 0 {
		missing = append(missing[:maxMissing:maxMissing], fmt.Sprintf("and %d more", more))
	}
	return pullSecrets{runtime.NewPullSecrets(secrets), strings.Join(missing, ", "), err}
}

// ensure ensures that the images of a launch are present.
func (p *Pool) ensure(obj *corev1.Pod, l *launch, secrets pullSecrets) {
	defer close(l.ready)
	c := podspec.Find(&obj.Spec, l.container)
	crash.At("launch.image.before")
	if l.err = secrets.err; l.err != nil {
		l.failed = neededImage{ref: c.Image, policy: c.ImagePullPolicy}
		return
	}
	pull := func(need neededImage) (out pulledImage) {
		out.neededImage = need
		if l.err != nil {
			return out
		}
		began := time.Time{}
		out.Image, l.err = p.config.Images.Ensure(runtime.ForTenant(l.ctx, obj.Namespace), need.ref, need.policy, secrets.own, func(string) {
			l.once.Do(func() { close(l.pulling) })
			if !began.IsZero() {
				return
			}
			began = time.Now()
			p.report(obj, duty.Observation{
				What: duty.Pulling, Container: l.container, Attempt: l.attempt, Volume: need.volume,
				Message: secrets.missing,
			})
		})
		l.failed = need
		if !began.IsZero() {
			out.took = max(time.Since(began), 1)
		}
		return out
	}
	for _, need := range imageVolumes(obj, c) {
		l.volumes = append(l.volumes, pull(need))
	}
	l.image = pull(neededImage{ref: c.Image, policy: c.ImagePullPolicy})
	crash.At("launch.image.after")
}

// setUp takes the set-up steps of a pod, and reports whether all have succeeded.
func (p *Pool) setUp(obj *corev1.Pod, w *worker, ctx context.Context) (duty.Observation, bool) {
	sandbox := &Sandbox{Yield: w.slot.Yield}
	for _, step := range p.config.Steps {
		crash.At("set-up", step.Name, "before")
		var err error
		p.take(obj, w, "set-up of "+step.Name, func() { err = step.SetUp(ctx, obj, sandbox) })
		if err != nil {
			if ctx.Err() == nil {
				p.log(obj).Warn("cannot set up a pod", "step", step.Name, "error", err)
			}
			if r := (*Rejection)(nil); errors.As(err, &r) {
				return duty.Observation{What: duty.Rejected, Reason: step.Reason, Message: r.Error()}, false
			}
			return duty.Observation{What: duty.SetUpFailed, Reason: step.Reason, Message: err.Error()}, false
		}
		crash.At("set-up", step.Name, "after")
	}
	sandbox.Yield = nil
	p.mu.Lock()
	w.sandbox = sandbox
	p.mu.Unlock()
	return duty.Observation{What: duty.SetUp, IPs: sandbox.IPs}, true
}
