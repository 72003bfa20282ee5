package pod

import (
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

const (
	// minimumGrace is how long a container has at least between its signal and SIGKILL, even if its own preStop hook, or
	// the containers stopped before a sidecar, have used up the pod's grace period, or that is a second.
	minimumGrace = 2 * time.Second
	// killAgain is how long after a SIGKILL a container that still runs gets another one.
	killAgain = 10 * time.Second
)

// ending notes that the pod is to end, and when somebody has made its grace period shorter.
func (i *Issued) ending(s stop, now time.Time) {
	open := i.change()
	if open.end == nil {
		open.end = &issuedEnd{}
	} else if s.grace < open.end.grace {
		open.end.cut = now
	}
	open.end.grace = s.grace
}

// Resume notes of a pod that an earlier daemon has begun to end that its grace period goes on. Whether its containers have
// had their signal is not known, so they get it, perhaps for the second time.
func (i *Issued) Resume(pod *corev1.Pod, now time.Time) {
	if s, ok := stopping(pod, now); ok && Ends(pod) {
		i.change().end = &issuedEnd{grace: s.grace, earlier: true}
	}
}

// resumed reports whether an earlier daemon has begun to end the pod.
func (i *Issued) resumed() bool {
	end := i.look().end
	return end != nil && end.earlier
}

// cut returns when somebody made the grace period of the pod shorter, zero if nobody has.
func (i *Issued) cut() time.Time {
	end := i.look().end
	if end == nil {
		return time.Time{}
	}
	return end.cut
}

// endPod ends what runs or is being launched of a pod that is to end.
func (p *planner) endPod(s stop) {
	if p.waits(s) {
		return
	}
	if cut := p.issued.cut(); !cut.IsZero() && s.grace > 0 {
		s.kill = cut.Add(max(s.grace, minimumGrace)) // counts from when it was said, not from the beginning
	}
	from := len(p.actions)
	p.stop(s)
	for i := range p.actions[from:] {
		p.actions[from+i].Ends = true
	}
}

// stop ends what runs or is being launched, sidecars last.
func (p *planner) stop(s stop) {
	containers(p.pod, func(c container) bool {
		attempt := int(c.status.RestartCount)
		switch {
		case c.running():
		case p.issued.underWay(c):
			attempt = c.next()
		default:
			return true
		}
		p.end(c, attempt, inTurn(p.pod, p.issued, c), s)
		return true
	})
}

// end ends a container: its preStop hook, at once; its stop signal, in turn; and SIGKILL after the grace period, which
// begins with the hook. A hook that takes all of that time does not deprive the container of minimumGrace.
func (p *planner) end(c container, attempt int, turn bool, s stop) {
	var i issued
	if found := p.issued.find(c.spec.Name); found != nil {
		i = *found
	}
	cut := !p.issued.cut().IsZero()
	first := i.stopping.IsZero() || i.stopping.Before(p.issued.cut())
	from := i.stopping
	if first {
		from = p.now
	}

	kill := s.kill
	switch {
	case s.grace == 0:
	case c.sidecar(): // the grace is that of the whole pod, but for the least that each one gets
		turn = turn || !p.now.Before(kill)
		if least := from.Add(minimumGrace); turn && least.After(kill) {
			kill = least
		}
	case cut:
		kill = from.Add(max(s.grace, minimumGrace))
	case !first || p.now.Before(kill):
		// The API keeps whole seconds: count from the signal, not from the deletion.
		late := kill.Add(time.Second)
		if kill = from.Add(max(s.grace, minimumGrace)); p.issued.resumed() && late.Before(kill) {
			if kill = late; kill.Before(from.Add(minimumGrace)) {
				kill = from.Add(minimumGrace)
			}
		}
	}
	hook := c.hasPreStop() && s.grace > 0 && !cut
	until := kill // how long the hook may take
	if short := from.Add(s.grace); !c.sidecar() && short.Before(until) {
		until = short
	}
	if hook {
		over := i.hooked
		if over.IsZero() {
			over = until
		}
		if least := over.Add(minimumGrace); least.After(kill) {
			kill = least
		}
	}

	action := duty.Action{Kind: duty.Stop, Container: c.spec.Name, Attempt: attempt, Signal: c.stopSignal()}
	if hook && i.hooking.IsZero() {
		action.Grace = until.Sub(p.now)
	}
	switch {
	case !p.now.Before(kill):
		if !i.killed.IsZero() && p.now.Before(i.killed.Add(killAgain)) {
			p.at(i.killed.Add(killAgain))
			return
		}
		action.Signal, action.Grace = syscall.SIGKILL, 0
		p.at(p.now.Add(killAgain))
	case first && !turn && action.Grace > 0 && c.running():
		action.Kind, action.Signal = duty.RunPreStop, 0
		p.at(kill)
	case first && turn && (i.hooking.IsZero() || !i.hooked.IsZero() || cut):
		p.at(kill)
	default: // it was stopped, or it waits for its turn or its hook
		p.at(kill)
		return
	}
	p.actions = append(p.actions, action)
}
