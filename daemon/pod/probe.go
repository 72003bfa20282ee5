package pod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
)

func (c container) hasPreStop() bool {
	return c.spec.Lifecycle != nil && c.spec.Lifecycle.PreStop != nil
}

// startsAtOnce reports whether a container has started as soon as its process runs (status.started).
func startsAtOnce(c *corev1.Container) bool { return !duty.HasPostStart(c) && c.StartupProbe == nil }

// checked folds in the result of a check. Only a verdict changes the status; any other failure or doubt is just an event.
func (f *folder) checked(c container, o duty.Observation) {
	if !c.running() || o.Attempt != int(c.status.RestartCount) {
		return
	}
	if o.Check == duty.PreStop {
		f.issued.of(c.spec.Name).hooked = o.At
	}
	failed := !o.OK
	isHook := o.Check == duty.PostStart || o.Check == duty.PreStop
	switch {
	case failed && isHook:
		// A kubelet's event ends before the colon, and leaves open why (kubernetes/kubernetes#130438).
		f.warning(c, "Failed"+string(o.Check)+"Hook", string(o.Check)+"Hook failed: "+o.Message)
	case o.Unanswered:
		f.warning(c, "Unhealthy", string(o.Check)+" probe errored and resulted in unknown state: "+o.Message)
	case failed:
		f.warning(c, "Unhealthy", string(o.Check)+" probe failed: "+o.Message)
	case o.Message != "" && isHook:
		f.warning(c, "LifecycleHTTPFallback", o.Message)
	case o.Message != "":
		f.warning(c, "ProbeWarning", string(o.Check)+" probe warning: "+o.Message)
	}
	switch {
	case !o.Verdict:
	case o.Check == duty.Readiness:
		f.ready(c, o.OK && !isFalse(c.status.Started))
	case failed:
		f.unhealthy(c, o)
	case o.Check != duty.Liveness && isFalse(c.status.Started):
		started := true
		c.status.Started, f.changed = &started, true
		f.ready(c, c.spec.ReadinessProbe == nil)
	}
}

func (f *folder) ready(c container, ready bool) {
	if c.status.Ready != ready {
		c.status.Ready, f.changed = ready, true
	}
}

// unhealthy asks for a container to be stopped, so that it is restarted if its policy says so. That is not stored:
// after a restart of the daemon the probe fails again.
func (f *folder) unhealthy(c container, o duty.Observation) {
	i := f.issued.of(c.spec.Name)
	if i.unhealthy == o.Attempt+1 {
		return
	}
	i.unhealthy, i.failedCheck, i.failure = o.Attempt+1, o.Check, o.Message
	message := "Container " + c.spec.Name + " failed "
	switch o.Check {
	case duty.PostStart:
		message = "FailedPostStartHook"
		if duty.HasPostStart(c.spec) {
			i.failure = f.hookFailure(c, c.spec.Lifecycle.PostStart, o.Message)
		}
	case duty.Startup:
		message += "startup probe, will be restarted"
	default:
		message += "liveness probe, will be restarted"
	}
	f.normal(c, "Killing", message)
}

// hookFailure says how a hook has failed, as a kubelet does.
func (f *folder) hookFailure(c container, hook *corev1.LifecycleHandler, failure string) string {
	var what string
	switch {
	case hook.Exec != nil:
		what = fmt.Sprintf("Exec lifecycle hook (%v)", hook.Exec.Command)
	case hook.HTTPGet != nil:
		what = fmt.Sprintf("HTTP lifecycle hook (%s)", hook.HTTPGet.Path)
	default:
		what = "Lifecycle hook"
	}
	return fmt.Sprintf("%s for Container %q in Pod %q failed - error: %s", what, c.spec.Name, f.describe(), failure)
}

// describe returns a pod as a kubelet's messages name it.
func (f *folder) describe() string {
	return fmt.Sprintf("%s_%s(%s)", f.pod.Name, f.pod.Namespace, f.pod.UID)
}

// condemned reports whether the container is to be stopped because of a check, and its grace period for that.
func (i *Issued) condemned(pod *corev1.Pod, c container) (grace time.Duration, ok bool) {
	e := i.find(c.spec.Name)
	if e == nil || e.unhealthy == 0 || e.unhealthy != int(c.status.RestartCount)+1 || !c.running() {
		return 0, false
	}
	g := pod.Spec.TerminationGracePeriodSeconds
	if p := e.failedCheck.Probe(c.spec); p != nil && p.TerminationGracePeriodSeconds != nil {
		g = p.TerminationGracePeriodSeconds
	}
	if g != nil {
		grace = podspec.Seconds(*g)
	}
	return grace, true
}
