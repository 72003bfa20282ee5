package pod

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
)

// monitor checks one running container until it ends. Only containers that have something to be checked have one.
type monitor struct {
	workers   *Workers
	pod       *corev1.Pod
	container *corev1.Container
	attempt   int
	target    target
	started   bool // status.started, as far as it is on record
	since     time.Time
}

// watch begins to check a container whose start has just been reported. Workers.mu is held.
func (w *Workers) watch(pod *corev1.Pod, p *worker, o Observation) {
	c := find(pod, o.Container).spec
	if !watched(c) {
		return
	}
	ip := ""
	if p.sandbox != nil && len(p.sandbox.IPs) > 0 {
		ip = p.sandbox.IPs[0]
	}
	w.monitor(&monitor{
		workers: w, pod: pod, container: c, attempt: o.Attempt, started: startsAtOnce(c), since: o.Status.StartedAt,
		target: target{runtime: w.config.Runtime, container: c, id: o.Status.ID, pid: o.Status.PID, ip: ip},
	})
}

// watchAgain checks a container that runs since before the daemon was started.
func (w *Workers) watchAgain(pod *corev1.Pod, c container, s runtime.Status) {
	if !watched(c.spec) || w.monitors == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.monitor(&monitor{
		workers: w, pod: pod, container: c.spec, attempt: s.Attempt, started: !isFalse(c.status.Started), since: s.StartedAt,
		target: target{runtime: w.config.Runtime, container: c.spec, id: s.ID, pid: s.PID, ip: pod.Status.PodIP},
	})
}

func (w *Workers) monitor(m *monitor) {
	if w.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	w.monitors[m.target.id] = stop
	w.group.Go(func() {
		defer stop()
		m.run(ctx)
	})
}

// unwatch ends the checks of a container. Workers.mu is held.
func (w *Workers) unwatch(id string) {
	if stop := w.monitors[id]; stop != nil {
		stop()
		delete(w.monitors, id)
	}
}

func (m *monitor) run(ctx context.Context) {
	if !m.started && hasPostStart(m.container) {
		err := m.target.hook(ctx, m.container.Lifecycle.PostStart)
		if ctx.Err() != nil {
			return
		}
		if err != nil || m.container.StartupProbe == nil {
			m.report(PostStart, err, true)
		}
		if err != nil {
			return
		}
	}
	if !m.started && !m.probe(ctx, Startup) {
		return
	}
	var others sync.WaitGroup
	others.Go(func() { m.probe(ctx, Readiness) })
	m.probe(ctx, Liveness)
	others.Wait()
}

// probe asks until there is a verdict that is final: that the container has started, or that it is to end. It tells
// whether there is reason to go on.
func (m *monitor) probe(ctx context.Context, check Check) bool {
	p := check.probe(m.container)
	if p == nil {
		return true
	}
	begin := m.since.Add(time.Duration(p.InitialDelaySeconds) * time.Second)
	var counted tally
	for wait := time.Until(begin); pause(ctx, wait); wait = time.Duration(max(p.PeriodSeconds, 1)) * time.Second {
		err := m.ask(ctx, p)
		if ctx.Err() != nil {
			return false
		}
		verdict := counted.fold(p, err == nil)
		if verdict || err != nil {
			m.report(check, err, verdict)
		}
		if verdict && check != Readiness && (err != nil || check == Startup) {
			return err == nil
		}
	}
	return false
}

func (m *monitor) ask(ctx context.Context, p *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	return m.target.probe(ctx, p.ProbeHandler)
}

func (m *monitor) report(check Check, err error, verdict bool) {
	o := Observation{What: Checked, Container: m.container.Name, Attempt: m.attempt, Check: check, OK: err == nil, Verdict: verdict}
	if err != nil {
		o.Message = err.Error()
	}
	m.workers.report(m.pod, o)
}

// preStop does what a container asks for before it is stopped. It is not waited for beyond the grace.
func (w *Workers) preStop(pod *corev1.Pod, a Action) {
	c := find(pod, a.Container).spec
	if c == nil || c.Lifecycle == nil || c.Lifecycle.PreStop == nil || a.Grace <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, a.Grace)
	defer cancel()
	t := target{runtime: w.config.Runtime, container: c, id: containerID(pod, a.Container, a.Attempt), ip: pod.Status.PodIP}
	held, err := w.config.Runtime.Containers(ctx)
	if err != nil {
		w.log(pod).Warn("look for container", "container", a.Container, "error", err)
	}
	for _, s := range held {
		if s.ID == t.id {
			t.pid = s.PID
		}
	}
	if err := t.hook(ctx, c.Lifecycle.PreStop); err != nil && w.ctx.Err() == nil {
		w.report(pod, Observation{What: Checked, Container: a.Container, Attempt: a.Attempt, Check: PreStop, Message: err.Error()})
	}
}

// pause waits, and tells whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
