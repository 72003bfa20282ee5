package causes

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
)

// jobWindow is the window of the Job, or of its namespace (core.WindowAnnotation), which is closed.
func jobWindow(v *jobView) []why.Cause {
	if v.end != nil || v.suspended() {
		return nil
	}
	c := outsideWindow(v.World, v.job)
	if c == nil {
		return nil
	}
	if batch.PausedBy(&v.job.Status) == batch.PausedByUser {
		c.Message += " The containers of its pods are frozen until then."
	} else {
		c.Message += " No pod of it starts before."
	}
	return []why.Cause{*c}
}

// podWindow is the same, for a pod that waits.
func podWindow(v *podView) []why.Cause {
	if v.job == nil || v.ended() || podspec.Bound(v.pod) || v.pod.DeletionTimestamp != nil {
		return nil
	}
	if c := outsideWindow(v.World, v.job); c != nil {
		c.Message += " It starts then at the earliest."
		return []why.Cause{*c}
	}
	return nil
}

// outsideWindow says that a Job is outside of its window; nil if it is not.
func outsideWindow(w World, j *batchv1.Job) *why.Cause {
	closed, opens := batch.WindowClosed(&j.Status)
	if closed == nil || w.Source != why.FromRecords {
		return nil
	}
	day := "Mon"
	if opens.Sub(w.Now) > 6*24*time.Hour {
		day += " Jan 2"
	}
	return &why.Cause{
		Type: "OutsideWindow", Brief: "outside of its window, which opens " + opens.Format(day+" 15:04"), Since: why.At(closed.LastTransitionTime.Time),
		Message: why.Sentence(closed.Message), Details: map[string]string{"opens": opens.Format(time.RFC3339)},
		Help: []string{fmt.Sprintf("jobctl annotate --overwrite jobs/%s%s %s=00:00-24:00", j.Name, why.InNamespace(j.Namespace), core.WindowAnnotation)},
	}
}
