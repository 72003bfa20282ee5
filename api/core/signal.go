package core

import (
	"errors"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/internal/signals"
)

const (
	// SignalAnnotation of a pod is a signal that its containers get some time before the pod is ended, as with sbatch --signal:
	// "USR1@120s". What ends it is a deadline, its own or that of its Job, or an eviction or a preemption that can wait.
	SignalAnnotation = "jobd.dev/signal"
	// Signaled is the condition of a pod that was given that signal: False while it is being sent, True once it was, and Unknown
	// if that has failed. Its message says why the pod ends. A pod has it once, and gets the signal once.
	Signaled corev1.PodConditionType = "jobd.dev/Signaled"
	// DeadlineNear and EvictionNear are the reasons of the condition.
	DeadlineNear = "DeadlineNear"
	EvictionNear = "EvictionNear"

	maxSignalLead = 24 * time.Hour
)

// Signal is what SignalAnnotation asks for.
type Signal struct {
	Number syscall.Signal
	// Lead is how long before the end it comes.
	Lead time.Duration
}

// Name returns the name of the signal: SIGUSR1.
func (s *Signal) Name() string { return signals.Name(s.Number) }

// SignalOf returns what a pod's annotations ask for, nil for nothing.
func SignalOf(annotations map[string]string) (*Signal, error) {
	value, ok := annotations[SignalAnnotation]
	if !ok {
		return nil, nil
	}
	name, lead, ok := strings.Cut(value, "@")
	if !ok {
		return nil, errors.New(`must be a signal and how long before the end it comes, such as "USR1@120s"`)
	}
	number := signals.Number("SIG" + strings.TrimPrefix(name, "SIG"))
	switch {
	case number == 0:
		return nil, errors.New(`the part before the @ must be the name of a signal, such as "USR1" or "SIGTERM"`)
	case number == signals.KILL || number == signals.STOP:
		return nil, errors.New("no process can prepare for this signal: use one such as USR1 or TERM")
	}
	d, err := time.ParseDuration(lead)
	if err != nil || d%time.Second != 0 {
		return nil, errors.New(`the part after the @ must be a duration of whole seconds, such as "120s" or "5m"`)
	}
	if d <= 0 || d > maxSignalLead {
		return nil, errors.New("the time after the @ must be longer than 0 and at most 24h")
	}
	return &Signal{number, d}, nil
}

// SignalLead returns by how much the end of a pod is put off that is evicted or preempted now, so that its containers can have
// their signal first; 0 for not at all. One that has had the signal before has only the rest of the time.
func SignalLead(p *corev1.Pod, now time.Time) time.Duration {
	s, err := SignalOf(p.Annotations)
	if err != nil || s == nil || p.DeletionTimestamp != nil {
		return 0
	}
	if had := conditions.Find(p.Status.Conditions, Signaled); had != nil {
		return min(max(0, had.LastTransitionTime.Add(s.Lead).Sub(now).Truncate(time.Second)), s.Lead)
	}
	for c := range podspec.Statuses(p) {
		if c.State.Running != nil {
			return s.Lead
		}
	}
	return 0
}

func validateSignal(annotations map[string]string, path *field.Path) field.ErrorList {
	if _, err := SignalOf(annotations); err != nil {
		return field.ErrorList{field.Invalid(path.Key(SignalAnnotation), annotations[SignalAnnotation], err.Error())}
	}
	return nil
}
