package job

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
)

// Event is an event to be recorded on the Job, with the source job-controller.
type Event struct {
	Type, Reason, Message string
}

// Created returns the event of a pod that was created.
func Created(pod string) Event {
	return Event{corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: " + pod}
}

// CreationFailed returns the event of a pod whose creation was refused.
func CreationFailed(err error) Event {
	return Event{corev1.EventTypeWarning, "FailedCreate", "Error creating: " + err.Error()}
}

func deleted(pod string) Event {
	return Event{corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: " + pod}
}

func resumed() Event   { return Event{corev1.EventTypeNormal, "Resumed", "Job resumed"} }
func completed() Event { return Event{corev1.EventTypeNormal, "Completed", "Job completed"} }

// retried returns the event of a Job that begins another attempt (retry.Begin).
func retried(attempt int) Event {
	return Event{corev1.EventTypeNormal, "Retried", fmt.Sprintf("Attempt %d begins", attempt)}
}

func tooManySucceeded() Event {
	return Event{corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods recorded"}
}

// suspended returns the event of a suspended Job. If Kueue is meant to resume it, the event says why it waits, since
// nothing else would.
func suspended(awaitsKueue bool) Event {
	e := Event{corev1.EventTypeNormal, "Suspended", "Job suspended"}
	if awaitsKueue {
		e.Message += "; its label " + batch.KueueLabel +
			" has no effect, since there is no Kueue in jobd to resume it: " +
			"set spec.suspend to false"
	}
	return e
}

func unknownCompletionMode() Event {
	return Event{
		corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown",
	}
}
