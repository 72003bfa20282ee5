// Package simulated runs containers that have no process: annotations of their pod say how long they last and how they
// end. So everything above the runtime can be tested and measured, with a hundred thousand pods on one machine.
//
// They live in the memory of the daemon and are lost with it. Nothing of the host is touched.
package simulated

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/internal/heap"
	"github.com/jobd/jobd/runtime"
)

// Runtime is a runtime.Runtime. Its clock is that of package time, so it works in a synctest bubble.
type Runtime struct {
	began time.Time     // its times count from then
	wake  chan struct{} // capacity 1: there is something new for the goroutine
	done  chan struct{} // closed when the goroutine has ended

	mu         sync.Mutex
	containers map[string]*simulated
	running    heap.Heap[*simulated] // the next to end first
	ended      []*simulated          // not yet reported to onExit
	onExit     func(runtime.Status)
	sequence   uint64
	closed     bool

	// Unfreezable makes attempts to freeze containers fail, as where a process hangs in the kernel. It is to be set before any starts.
	Unfreezable bool
}

var _ runtime.Runtime = (*Runtime)(nil)

// simulated is a simulated container. It is small: there may be a hundred thousand of them.
type simulated struct {
	id, podUID, name string
	attempt          int32
	exitCode         int32         // what it exits with when it is due
	started          int64         // Unix time in nanoseconds
	due              time.Duration // since the runtime began
	sequence         uint64        // order of starts, for those that are due at the same time
	place            int32         // among those that run
	frozen           bool          // due is then how much longer it runs, and it is not among those that run
	ended            *runtime.Status
}

// status returns what is known of a container.
func (s *simulated) status() runtime.Status {
	if s.ended != nil {
		return *s.ended
	}
	return runtime.Status{
		ID: s.id, PodUID: s.podUID, Name: s.name, Attempt: int(s.attempt),
		State: runtime.Running, StartedAt: time.Unix(0, s.started),
	}
}

// shared returns a string that is a part of another one, if it is, without memory of its own.
func shared(part, of string) string {
	if i := strings.Index(of, part); i >= 0 {
		return of[i : i+len(part)]
	}
	return part
}

// New starts the one goroutine that ends containers. Close stops it.
func New() *Runtime {
	r := &Runtime{
		began:      time.Now(),
		wake:       make(chan struct{}, 1),
		done:       make(chan struct{}),
		containers: map[string]*simulated{},
		onExit:     func(runtime.Status) {},
	}
	go r.run()
	return r
}

// Describe describes the runtime for people.
func (r *Runtime) Describe() string {
	return "simulated: pods end as their annotations say, without containers"
}

// OnExit sets the function that is called with each exit.
func (r *Runtime) OnExit(fn func(runtime.Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onExit = fn
}

// Containers lists every container that is held.
func (r *Runtime) Containers(context.Context) ([]runtime.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]runtime.Status, 0, len(r.containers))
	for _, c := range r.containers {
		list = append(list, c.status())
	}
	return list, nil
}

// Start starts a container, or returns the status of the one that has its ID.
func (r *Runtime) Start(_ context.Context, c runtime.Container) (runtime.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return runtime.Status{}, fmt.Errorf("start container %s: the runtime is closed: %w", c.ID,
			errdefs.ErrUnavailable)
	}
	if held, ok := r.containers[c.ID]; ok {
		return held.status(), nil
	}
	now := time.Now()
	r.sequence++
	s := &simulated{
		id: c.ID, podUID: shared(c.PodUID, c.ID), name: shared(c.Name, c.ID), attempt: int32(c.Attempt),
		started: now.UnixNano(), sequence: r.sequence,
	}
	r.containers[c.ID] = s

	p, err := planOf(c)
	if err != nil {
		r.end(s, startErrorCode, 0, now)
		s.ended.StartedAt, s.ended.StartError = time.Time{}, err.Error()
		return s.status(), nil
	}
	s.due, s.exitCode = now.Sub(r.began)+p.duration, int32(p.exitCode)
	r.running.Push(s)
	if s.place == 0 {
		r.nudge()
	}
	return s.status(), nil
}

// Usage finds nothing: there are no processes.
func (r *Runtime) Usage(_, id string) (runtime.Usage, error) {
	return runtime.Usage{}, fmt.Errorf("usage of container %s: it is only simulated: %w", id, errdefs.ErrNotFound)
}

// CallOff finds no start under way: they take no time.
func (r *Runtime) CallOff(_ context.Context, id string) error {
	return fmt.Errorf("call off container %s: its start is over: %w", id, errdefs.ErrFailedPrecondition)
}

// Signal ends a running container with 128+sig.
func (r *Runtime) Signal(_ context.Context, id string, sig syscall.Signal, _ bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.containers[id]
	if !ok || s.ended != nil {
		return fmt.Errorf("signal container %s: it is not running: %w", id, errdefs.ErrNotFound)
	}
	r.stop(s)
	r.end(s, 128+int(sig), int(sig), time.Now())
	return nil
}

// stop takes a container from those that run.
func (r *Runtime) stop(s *simulated) {
	if !s.frozen {
		r.running.Remove(int(s.place))
	}
	s.frozen = false
}

// Freeze stops the time of a container, or lets it go on.
func (r *Runtime) Freeze(_, id string, freeze bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.containers[id]
	switch now := time.Since(r.began); {
	case !ok || s.ended != nil:
		return fmt.Errorf("freeze container %s: it is not running: %w", id, errdefs.ErrNotFound)
	case freeze && r.Unfreezable:
		return fmt.Errorf("freeze container %s: not all of its processes stop", id)
	case s.frozen == freeze:
	case freeze:
		r.stop(s)
		s.frozen, s.due = true, s.due-now
	default:
		s.frozen, s.due = false, s.due+now
		r.running.Push(s)
		r.nudge()
	}
	return nil
}

// SignalOnce reaches a container that runs, and has no effect on it: it is made up that it expects the signal.
func (r *Runtime) SignalOnce(_ context.Context, id string, _ syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.containers[id]; !ok || s.ended != nil {
		return fmt.Errorf("signal container %s: it is not running: %w", id, errdefs.ErrNotFound)
	}
	return nil
}

// Remove forgets a container.
func (r *Runtime) Remove(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.containers[id]
	if !ok {
		return nil
	}
	if s.ended == nil {
		r.stop(s)
		r.end(s, 128+int(syscall.SIGKILL), int(syscall.SIGKILL), time.Now())
	}
	delete(r.containers, id)
	return nil
}

// Close stops the goroutine. Nothing ends afterwards.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.nudge()
	<-r.done
	return nil
}

// end marks a container as ended and leaves the report to the goroutine, so that exits are reported in order.
func (r *Runtime) end(s *simulated, code, signal int, at time.Time) {
	end := s.status()
	end.State, end.ExitCode, end.Signal, end.FinishedAt = runtime.Exited, code, signal, at
	s.ended = &end
	r.ended = append(r.ended, s)
	r.nudge()
}

func (r *Runtime) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run ends containers when they are due.
func (r *Runtime) run() {
	defer close(r.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return
		}
		at, next := time.Now(), time.Duration(-1)
		now := at.Sub(r.began)
		for len(r.running) > 0 {
			first := r.running[0]
			if wait := first.due - now; wait > 0 {
				next = wait
				break
			}
			r.running.Pop()
			r.end(first, int(first.exitCode), 0, at.Add(first.due-now))
		}
		ended := make([]runtime.Status, len(r.ended))
		for i, s := range r.ended {
			ended[i] = s.status()
		}
		r.ended = r.ended[:0]
		tell := r.onExit
		r.mu.Unlock()

		for _, s := range ended {
			tell(s)
		}
		timer.Stop()
		if next >= 0 {
			timer.Reset(next)
		}
		select {
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// Before orders running containers by when they end.
func (s *simulated) Before(other *simulated) bool {
	if s.due != other.due {
		return s.due < other.due
	}
	return s.sequence < other.sequence
}

// Moved implements heap.Element.
func (s *simulated) Moved(to int) { s.place = int32(to) }
