package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime/crash"
)

// Pool carries out actions: those of one pod in order, those of several pods in parallel. A pod that needs nothing has
// no goroutine.
type Pool struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup
	limit  limiter
	stuck  atomic.Int64 // steps that have taken long enough to be reported, and are not over
	pace   pace

	mu   sync.Mutex
	pods map[types.UID]*worker
	// tails are the logs of running containers whose end may become the termination message, by container ID.
	tails map[string]string
	// checks are what is asked of running containers just now, by container ID.
	checks map[string]*checks
}

// worker is what is known of one pod between its first launch and its tear-down. It is small, since most of very many pods
// just run.
type worker struct {
	sandbox *Sandbox // nil until the steps are done
	frozen  bool     // its containers were frozen (pause)
	ending  bool     // the pod ends: its liveness and startup probes have stopped
	*work            // nil when there is nothing to do for the pod
}

// work is what there is to do for a pod.
type work struct {
	pod   *corev1.Pod // as it was passed to Do last; nil between two tear-downs
	queue []duty.Action
	busy  bool
	slot  *slot // of the goroutine that works off the queue
	step  step  // that is under way
	// launches are those that are queued or under way.
	launches []*launch
	// leftovers are containers to be removed that the pod's status does not mention.
	leftovers []string
	failed    int // tear-downs that failed in a row
	// calm ends the measurement that is under way; nil if there is none.
	calm context.CancelFunc
}

// New makes a pool, and sets the runtime's OnExit. Goroutines live only as long as there are actions.
func New(c Config) *Pool {
	if c.Parallel <= 0 {
		c.Parallel = defaultParallel
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{
		config: c, limit: newLimiter(c.Parallel), pods: map[types.UID]*worker{},
		tails: map[string]string{}, checks: map[string]*checks{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	c.Runtime.OnExit(p.onExit)
	return p
}

// closeTime is how long those actions that are under way may delay the end of the daemon. One that takes longer hangs in the
// kernel, and is taken up again by the next daemon.
const closeTime = 15 * time.Second

// Close drops the actions that are queued and waits for those under way, but not for longer than closeTime. Containers keep
// running.
func (p *Pool) Close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.group.Wait()
	}()
	select {
	case <-done:
	case <-time.After(closeTime):
		p.config.Logger.Warn("a step of a pod hangs, and is no longer waited for", "waited", closeTime)
	}
}

// Do queues actions of one pod and returns at once. Actions are carried out in order, but a Stop overtakes launches,
// and a TearDown calls them off. The pod must not be changed afterwards.
func (p *Pool) Do(obj *corev1.Pod, actions []duty.Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	w := p.pods[obj.UID]
	if w == nil {
		w = &worker{}
		p.pods[obj.UID] = w
	}
	if w.work == nil {
		w.work = &work{}
	}
	w.pod = obj
	for _, a := range actions {
		if a.Ends && !w.ending {
			w.ending = true
			p.calmDown(obj)
		}
		switch l := w.launching(a.Container, a.Attempt); {
		case a.Kind == duty.TearDown:
			for _, l := range w.launches {
				l.callOff(a)
			}
			if w.calm != nil {
				w.calm()
			}
			// A pod that goes is neither refreshed nor measured nor resized, nor paused.
			w.queue = slices.DeleteFunc(w.queue, func(q duty.Action) bool {
				return q.Kind == duty.Refresh || q.Kind == duty.Measure || q.Kind == duty.Resize || q.Kind == duty.Pause || q.Kind == duty.Continue
			})
			w.queue = append(w.queue, a)
		case a.Kind == duty.Launch && l == nil:
			w.launches = append(w.launches, p.newLaunch(a))
			w.queue = append(w.queue, a)
		case a.Kind == duty.Refresh || a.Kind == duty.Measure || a.Kind == duty.Resize:
			// One that is queued already will see all that this one would.
			if !slices.ContainsFunc(w.queue, func(q duty.Action) bool { return q.Kind == a.Kind }) {
				w.queue = append(w.queue, a)
			}
		case a.Kind == duty.Pause || a.Kind == duty.Continue:
			w.queue = append(w.queue, a)
		case a.Kind == duty.Stop && l != nil:
			l.callOff(a)
		case a.Kind == duty.Stop:
			p.beside(obj, func() { p.stop(obj, a) })
		case a.Kind == duty.SendSignal:
			p.beside(obj, func() { p.sendSignal(obj, a) })
		case a.Kind == duty.RunPreStop:
			p.beside(obj, func() { p.preStop(obj, a) })
		}
	}
	p.schedule(w)
}

// beside does something for a pod beside its queue.
func (p *Pool) beside(obj *corev1.Pod, do func()) {
	p.group.Go(func() {
		defer p.tellPanic(obj)
		do()
	})
}

// tellPanic is deferred by what is done for a pod.
func (p *Pool) tellPanic(obj *corev1.Pod) {
	if p.config.Panicked == nil {
		return
	}
	if reason := recover(); reason != nil {
		p.config.Panicked(obj, reason)
		panic(reason)
	}
}

// schedule starts a worker for the pod's queue, unless there is one. Pool.mu is held.
func (p *Pool) schedule(w *worker) {
	if w.busy || len(w.queue) == 0 || p.ctx.Err() != nil {
		return
	}
	w.busy = true
	obj := w.pod
	p.group.Add(1)
	p.limit.Go(w.pod.Namespace, func(s *slot) {
		defer p.group.Done()
		defer p.tellPanic(obj)
		crash.Hang("work", obj.Namespace, obj.Name)
		w.slot = s
		p.work(w)
	})
}

// work carries out the actions of one pod until its queue is empty.
func (p *Pool) work(w *worker) {
	for {
		p.mu.Lock()
		if len(w.queue) == 0 || p.ctx.Err() != nil {
			w.rest()
			p.mu.Unlock()
			return
		}
		obj := w.pod
		var launches []*launch
		first := w.queue[0]
		w.queue = w.queue[1:]
		if first.Kind == duty.Launch {
			// Launches that are queued together are done together: set up once, reported once.
			launches = append(launches, w.launching(first.Container, first.Attempt))
			for len(w.queue) > 0 && w.queue[0].Kind == duty.Launch {
				launches = append(launches, w.launching(w.queue[0].Container, w.queue[0].Attempt))
				w.queue = w.queue[1:]
			}
		}
		p.mu.Unlock()
		switch first.Kind {
		case duty.TearDown:
			p.tearDown(obj, w)
		case duty.Refresh:
			p.refresh(obj, w)
		case duty.Measure:
			p.measure(obj, w)
		case duty.Resize:
			p.resize(obj, w)
		case duty.Pause:
			p.pause(obj, w)
		case duty.Continue:
			p.goOn(obj, w)
		default:
			p.launch(obj, w, launches)
		}
	}
}

// rest ends the work for a pod, but keeps what a tear-down that failed is to be repeated with. Pool.mu is held.
func (w *worker) rest() {
	w.pod, w.queue, w.busy, w.slot, w.step = nil, nil, false, nil, step{}
	if w.failed == 0 && len(w.launches) == 0 {
		w.work = nil
	}
}

// report hands observations to the loop.
func (p *Pool) report(obj *corev1.Pod, observations ...duty.Observation) {
	if len(observations) == 0 {
		return
	}
	for i := range observations {
		o := &observations[i]
		o.UID, o.Namespace, o.Name = obj.UID, obj.Namespace, obj.Name
		if o.At.IsZero() {
			o.At = time.Now()
		}
	}
	p.config.Report(observations)
}

// log returns the logger for one pod.
func (p *Pool) log(obj *corev1.Pod) *slog.Logger {
	return p.config.Logger.With("pod", obj.Namespace+"/"+obj.Name, "uid", obj.UID)
}
