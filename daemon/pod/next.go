package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
)

// planner collects what one pod needs.
type planner struct {
	pod     *corev1.Pod
	issued  *Issued
	now     time.Time
	doubt   bool // plan what may have been launched before a reboot, not what is to be launched now
	actions []duty.Action
	wake    time.Time
}

// Next returns what a pod needs now, judging by its status (after Apply) and what was issued already, and when to call
// Apply and Next again if nothing is observed before. With a zero wake that is only on a change. Next changes nothing:
// issued.Record is to be called with the actions that are carried out.
func Next(pod *corev1.Pod, issued *Issued, now time.Time) (actions []duty.Action, wake time.Time) {
	return next(&planner{pod: pod, issued: issued, now: now})
}

func next(p *planner) (actions []duty.Action, wake time.Time) {
	pod, issued, now := p.pod, p.issued, p.now
	if !podspec.Bound(pod) || !begun(pod) {
		return nil, time.Time{}
	}
	if podspec.Ended(pod) {
		if !tornDown(pod) && !issued.tornDown {
			if until := filesKeptUntil(pod, issued); now.Before(until) {
				return nil, until
			}
			p.actions = append(p.actions, duty.Action{Kind: duty.TearDown})
		}
		return p.actions, time.Time{}
	}
	p.signal()
	if s, ok := stopping(pod, now); ok && !(p.doubt && resumes(pod)) {
		p.endPod(issued.bounded(s))
		return p.actions, p.wake
	}
	restart, again := issued.restartsAll(pod)
	if s, ok := winding(pod); ok && !again {
		p.endPod(issued.bounded(s))
		return p.actions, p.wake
	}
	if at, ok := deadline(pod); ok {
		p.at(at)
	}
	if !p.doubt && p.pause() { // what was launched before the pause may have been under way
		return p.actions, p.wake
	}
	if again {
		p.stop(stop{})
		p.at(restart)
		return p.actions, p.wake
	}
	p.condemn()
	p.replace()
	p.resize()
	p.launch()
	p.launchEphemeral()
	return p.actions, p.wake
}

// at asks to be called at t at the latest.
func (p *planner) at(t time.Time) {
	if p.wake.IsZero() || t.Before(p.wake) {
		p.wake = t
	}
}

// launch starts what is due: the first init container that is not done, or else all main containers. Sidecars that come
// before it are restarted if they have ended.
func (p *planner) launch() {
	for i := range p.pod.Spec.InitContainers {
		c := initContainer(p.pod, i)
		if c.sidecar() || !c.succeeded(p.pod) {
			p.due(c)
		}
		if !c.passed(p.pod) && !(p.doubt && c.sidecar() && c.begun()) {
			return
		}
	}
	for i := range p.pod.Spec.Containers {
		p.due(mainContainer(p.pod, i))
	}
}

// due launches a container that is to run and does not, unless a back-off is not over yet.
func (p *planner) due(c container) {
	if c.running() || p.issued.underWay(c) || c.awaitsHost() {
		return
	}
	var at time.Time
	if end := c.ended(); end != nil {
		if !restarts(p.pod, c, end) {
			return
		}
		at = restartAt(c)
	}
	if i := p.issued.find(c.spec.Name); i != nil && i.failed > 0 && i.image == c.spec.Image {
		if retry := i.failedAt.Add(backoff(i.failed)); retry.After(at) {
			at = retry
		}
		if w := c.status.State.Waiting; w != nil && w.Reason == duty.ErrImagePull {
			p.at(i.failedAt.Add(imageErrorShown))
		}
	}
	if p.now.Before(at) {
		p.at(at)
		return
	}
	p.actions = append(p.actions, duty.Action{Kind: duty.Launch, Container: c.spec.Name, Attempt: c.next()})
}

// condemn stops containers that have failed a probe or hook.
func (p *planner) condemn() {
	containers := p.issued.look().containers
	for n := range containers {
		if containers[n].unhealthy == 0 {
			continue
		}
		c := find(p.pod, containers[n].name)
		if c.spec == nil {
			continue
		}
		if grace, ok := p.issued.condemned(p.pod, c); ok {
			from := containers[n].stopping
			if from.IsZero() {
				from = p.now
			}
			p.end(c, int(c.status.RestartCount), true, stop{kill: from.Add(grace), grace: grace})
		}
	}
}
