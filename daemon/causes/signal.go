package causes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
)

// signaled is the condition of a pod that goes on after it was told that it will end (core.SignalAnnotation); nil of any other.
func signaled(p *corev1.Pod) *corev1.PodCondition {
	if podspec.Ended(p) {
		return nil
	}
	return conditions.Find(p.Status.Conditions, core.Signaled)
}

// podSignaled is the signal that announces the end of a pod.
func podSignaled(v *podView) []why.Cause {
	c := signaled(v.pod)
	if c == nil {
		return nil
	}
	return []why.Cause{{
		Type: "Signaled", Message: why.Sentence(c.Message), Since: why.At(c.LastTransitionTime.Time), Details: map[string]string{"reason": c.Reason},
	}}
}

// jobSignaled says how many pods of a Job have had that signal.
func jobSignaled(v *jobView) []why.Cause {
	var last *corev1.PodCondition
	n := 0
	for _, p := range v.pods {
		if c := signaled(p); c != nil {
			n++
			if last == nil || last.LastTransitionTime.Before(&c.LastTransitionTime) {
				last = c
			}
		}
	}
	if n == 0 || v.end != nil {
		return nil
	}
	return []why.Cause{{
		Type: "Signaled", Since: why.At(last.LastTransitionTime.Time), Details: map[string]string{"pods": fmt.Sprint(n)},
		Message: fmt.Sprintf("The annotation %s of its pods has told %s that the end comes. The last one: %s", core.SignalAnnotation, pods(n), why.Sentence(last.Message)),
	}}
}
