package batch

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
)

// JobWindowClosed is the condition of a Job that is outside of its window (core.WindowAnnotation): no pod of it starts. Its message says
// when the window opens.
const JobWindowClosed batchv1.JobConditionType = "jobd.dev/WindowClosed"

// opensAt stands before the time in the message of JobWindowClosed.
const opensAt = ", which opens at "

// WindowMessage returns the message of JobWindowClosed.
func WindowMessage(w *core.Window, opens time.Time) string {
	return fmt.Sprintf("Outside of its window %s (%s)%s%s", w, w.Zone(), opensAt, opens.Format(time.RFC3339))
}

// WindowClosed returns the condition of a Job that is outside of its window, and when that opens; nil if it is not.
func WindowClosed(s *batchv1.JobStatus) (c *batchv1.JobCondition, opens time.Time) {
	c = conditions.Find(s.Conditions, JobWindowClosed)
	if c == nil || c.Status != corev1.ConditionTrue {
		return nil, time.Time{}
	}
	if i := strings.LastIndex(c.Message, opensAt); i >= 0 {
		opens, _ = time.Parse(time.RFC3339, c.Message[i+len(opensAt):])
	}
	return c, opens
}

// windowShown is what a table says of a Job of which nothing runs since it is outside of its window; empty if that is not so.
func windowShown(j *batchv1.Job, now time.Time) string {
	closed, opens := WindowClosed(&j.Status)
	if closed == nil || ptr.Deref(j.Spec.Suspend, false) {
		return ""
	}
	if ptr.Deref(j.Status.Ready, 0) > 0 && PausedBy(&j.Status) != PausedByUser {
		return ""
	}
	return "Window:" + clock(opens, now)
}

// PausedByWindow reports whether a Job is paused until its window opens.
func PausedByWindow(j *batchv1.Job) bool {
	closed, _ := WindowClosed(&j.Status)
	return closed != nil && PausedBy(&j.Status) == PausedByUser
}
