package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

// monitor runs the probes of one running container until it ends. Containers without any have no monitor.
type monitor struct {
	workers   *Pool
	pod       *corev1.Pod
	container *corev1.Container
	attempt   int
	target    target
	started   bool // status.started, as far as it is on record
	hook      bool // the postStart hook is to be run, too
	since     time.Time
}

// isChecked reports whether a container has a monitor.
func isChecked(c *corev1.Container) bool {
	return duty.HasPostStart(c) || c.StartupProbe != nil || c.ReadinessProbe != nil || c.LivenessProbe != nil
}

// checks end what is asked of one running container. A function is nil where nothing is asked.
type checks struct {
	all    context.CancelFunc // the postStart hook and all probes
	health context.CancelFunc // the startup and liveness probes
	hook   context.CancelFunc // the preStop hook
}

// asked returns the checks of a container, which unwatch forgets. Pool.mu is held.
func (p *Pool) asked(id string) *checks {
	c := p.checks[id]
	if c == nil {
		c = &checks{}
		p.checks[id] = c
	}
	return c
}

// watch starts the monitor of a container whose start has just been reported, unless its postStart hook, as far as was
// seen of it, has not succeeded: such a container is to end. Pool.mu is held.
func (p *Pool) watch(obj *corev1.Pod, w *worker, started duty.Observation, seen []duty.Observation) {
	c := podspec.Find(&obj.Spec, started.Container)
	hooked := func(o duty.Observation) bool {
		return o.What == duty.Checked && o.Check == duty.PostStart && o.Container == c.Name && o.OK
	}
	if isChecked(c) && (!duty.HasPostStart(c) || slices.ContainsFunc(seen, hooked)) {
		p.monitor(p.newMonitor(obj, w, started))
	}
}

// newMonitor returns the monitor of a container that has just been started.
func (p *Pool) newMonitor(obj *corev1.Pod, w *worker, started duty.Observation) *monitor {
	c := podspec.Find(&obj.Spec, started.Container)
	ip := ""
	if w.sandbox != nil && len(w.sandbox.IPs) > 0 {
		ip = w.sandbox.IPs[0] // as in address
	}
	s := started.Status
	return &monitor{
		workers: p, pod: obj, container: c, attempt: started.Attempt, since: s.StartedAt,
		target: target{runtime: p.config.Runtime, container: c, id: s.ID, pid: s.PID, ip: ip},
	}
}

// watchAgain starts the monitor of a container that was running before the daemon was started. What its postStart hook
// has said is on record only if it has started.
func (p *Pool) watchAgain(obj *corev1.Pod, a pod.Attempt, s runtime.Status) {
	if !isChecked(a.Container) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.monitor(&monitor{
		workers: p, pod: obj, container: a.Container, attempt: a.Number, started: a.Started, since: s.StartedAt,
		hook:   !a.Started && duty.HasPostStart(a.Container),
		target: target{runtime: p.config.Runtime, container: a.Container, id: s.ID, pid: s.PID, ip: p.address(obj)},
	})
}

// address returns the address at which a pod is probed. It never comes from the pod's status: a client that may write that
// could send the daemon's requests anywhere.
func (p *Pool) address(obj *corev1.Pod) string {
	if p.config.Address == nil {
		return ""
	}
	return p.config.Address(obj)
}

func (p *Pool) monitor(m *monitor) {
	if p.ctx.Err() != nil {
		return
	}
	c := p.asked(m.target.id)
	ctx, stop := context.WithCancel(p.ctx)
	health, calm := context.WithCancel(ctx)
	c.all, c.health = stop, calm
	if w := p.pods[m.pod.UID]; w != nil && w.ending {
		calm()
	}
	p.beside(m.pod, func() {
		defer stop()
		m.run(ctx, health)
	})
}

// calmDown ends the startup and liveness probes of a pod that ends: whatever they say, it is not restarted. Its readiness
// probes go on, since others may still use it. Pool.mu is held.
func (p *Pool) calmDown(obj *corev1.Pod) {
	for _, id := range p.held(obj) {
		if c := p.checks[id]; c != nil && c.health != nil {
			c.health()
		}
	}
}

// unwatch ends all checks of a container that has ended. Pool.mu is held.
func (p *Pool) unwatch(id string) {
	c := p.checks[id]
	if c == nil {
		return
	}
	delete(p.checks, id)
	for _, end := range []context.CancelFunc{c.all, c.hook} {
		if end != nil {
			end()
		}
	}
}

// endHook ends the preStop hook of a container, if it runs.
func (p *Pool) endHook(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.checks[id]; c != nil && c.hook != nil {
		c.hook()
	}
}

// run runs the hook and the probes until ctx is done. Those that ask whether the container is to be restarted end with
// health.
func (m *monitor) run(ctx, health context.Context) {
	if m.hook {
		o, ok := m.postStart(ctx)
		if !ok {
			return
		}
		m.workers.report(m.pod, o)
		if !o.OK {
			return
		}
	}
	if !m.started && !m.probe(health, duty.Startup) {
		return
	}
	var others sync.WaitGroup
	others.Go(func() {
		defer m.workers.tellPanic(m.pod)
		m.probe(ctx, duty.Readiness)
	})
	m.probe(health, duty.Liveness)
	others.Wait()
}

// postStart runs the postStart hook, and returns what is to be reported of it. It returns false if ctx ends before the
// hook does.
func (m *monitor) postStart(ctx context.Context) (duty.Observation, bool) {
	doubt, err := m.target.hook(ctx, m.container.Lifecycle.PostStart)
	if ctx.Err() != nil {
		return duty.Observation{}, false
	}
	// Of a container with a startup probe, that one has the last word.
	return m.observation(duty.PostStart, doubt, err, err != nil || m.container.StartupProbe == nil), true
}

// probe runs a probe until its verdict is final: that the container has started, or that it is to be restarted. It
// reports whether the checks go on.
func (m *monitor) probe(ctx context.Context, check duty.Check) bool {
	probe := check.Probe(m.container)
	if probe == nil {
		return true
	}
	begin := m.since.Add(time.Duration(probe.InitialDelaySeconds) * time.Second)
	var counted tally
	for wait := time.Until(begin); pause(ctx, wait); wait = time.Duration(max(probe.PeriodSeconds, 1)) * time.Second {
		doubt, err := m.ask(ctx, probe)
		if ctx.Err() != nil {
			return false
		}
		if _, ok := errors.AsType[unanswered](err); ok {
			m.report(check, "", err, false)
			continue
		}
		verdict := counted.fold(probe, err == nil)
		if verdict || err != nil || doubt != "" {
			m.report(check, doubt, err, verdict)
		}
		if verdict && check != duty.Readiness && (err != nil || check == duty.Startup) {
			return err == nil
		}
	}
	return false
}

// ask runs a probe once. It returns what is doubtful about a success.
func (m *monitor) ask(ctx context.Context, probe *corev1.Probe) (doubt string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	return m.target.probe(ctx, probe.ProbeHandler)
}

func (m *monitor) report(check duty.Check, doubt string, err error, verdict bool) {
	m.workers.report(m.pod, m.observation(check, doubt, err, verdict))
}

func (m *monitor) observation(check duty.Check, doubt string, err error, verdict bool) duty.Observation {
	o := duty.Observation{
		What: duty.Checked, Container: m.container.Name, Attempt: m.attempt, Check: check, OK: err == nil,
		Verdict: verdict, Message: doubt,
	}
	if err != nil {
		o.Message = err.Error()
		_, o.Unanswered = errors.AsType[unanswered](err)
	}
	return o
}

// preStop runs the preStop hook of a container, for no longer than the grace period, and reports that it is over. It
// returns false when the hook was ended before that: the container has ended, or another Stop has taken over.
func (p *Pool) preStop(obj *corev1.Pod, a duty.Action) (inTime bool) {
	p.thaw(obj, containerID(obj, a.Container, a.Attempt))
	c := podspec.Find(&obj.Spec, a.Container)
	if c == nil || c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return true
	}
	t := target{
		runtime: p.config.Runtime, container: c, id: containerID(obj, a.Container, a.Attempt), ip: p.address(obj),
	}
	ctx, cancel := context.WithTimeout(p.ctx, a.Grace)
	defer cancel()
	p.mu.Lock()
	p.asked(t.id).hook = cancel
	p.mu.Unlock()
	held, err := p.config.Runtime.Containers(ctx)
	if err != nil {
		p.log(obj).Warn("cannot list the containers of the runtime", "container", a.Container, "error", err)
	}
	for _, s := range held {
		if s.ID == t.id {
			t.pid = s.PID
		}
	}
	doubt, err := t.hook(ctx, c.Lifecycle.PreStop)
	if errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	o := duty.Observation{
		What: duty.Checked, Container: a.Container, Attempt: a.Attempt, Check: duty.PreStop, OK: err == nil,
		Message: doubt,
	}
	if err != nil {
		o.Message = err.Error()
	}
	p.report(obj, o)
	return true
}

// pause waits for d, and reports whether ctx was not cancelled meanwhile.
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
