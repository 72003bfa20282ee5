package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

// Event is an event about a pod, in a kubelet's words. Its source is "kubelet".
type Event struct {
	Type, Reason, Message string
	// FieldPath names the container: spec.containers{c}. It is empty if the event is about the whole pod.
	FieldPath string
}

func (f *folder) normal(c container, reason, message string) {
	f.events = append(f.events, Event{corev1.EventTypeNormal, reason, message, c.fieldPath()})
}

func (f *folder) warning(c container, reason, message string) {
	f.events = append(f.events, Event{corev1.EventTypeWarning, reason, message, c.fieldPath()})
}

// warnOnce records what was observed of the whole pod, however many of its containers report it together.
func (f *folder) warnOnce(o duty.Observation) {
	e := Event{Type: corev1.EventTypeWarning, Reason: o.Reason, Message: o.Message}
	if !slices.Contains(f.events, e) {
		f.events = append(f.events, e)
	}
}
