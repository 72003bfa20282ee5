package job

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

// Inherit takes in the window of the Job's namespace; nil for none. That of the Job itself counts instead, if it has one.
func (r *Record) Inherit(w *core.Window) { r.ofNamespace = w }

// foldWindow takes in the window of the Job itself.
func (r *Record) foldWindow(annotations map[string]string) {
	if text := core.WindowText(annotations); r.window == nil || r.window.Text != text {
		r.window = core.WindowOf(annotations)
	}
}

// Window returns the window of the Job, or else that of its namespace; nil for none.
func (r *Record) Window() *core.Window {
	if r.window != nil {
		return r.window
	}
	return r.ofNamespace
}

// windowNow reports whether the window of the Job is open, and when that changes; zero for never.
func (r *Record) windowNow(now time.Time) (w *core.Window, open bool, until time.Time) {
	w = r.Window()
	open, until = w.At(now)
	return w, open, until
}

// WindowClosed returns why no pod of the Job may start, if that is so by what is stored; empty if one may.
func (r *Record) WindowClosed() string {
	if c, _ := batch.WindowClosed(&r.status); c != nil && !r.deleting && !r.Finished() {
		return c.Message
	}
	return ""
}

// OutsideWindow returns why no pod of the Job may start at a time, whatever is stored, and when one may; empty if that is so now.
func (r *Record) OutsideWindow(now time.Time) (why string, opens time.Time) {
	if w, open, until := r.windowNow(now); !open {
		return batch.WindowMessage(w, until), until
	}
	return "", time.Time{}
}

// lookAtWindow takes in whether the window is open.
func (d *decision) lookAtWindow() {
	w, open, until := d.r.windowNow(d.now)
	if !until.IsZero() {
		d.wake(until)
	}
	if !open {
		d.closed = batch.WindowMessage(w, until)
		d.pauses, d.suspends = w.End == core.WindowPause, d.suspends || w.End == core.WindowStop
	}
}

// awaitsWindow reports whether the Job has not begun, and has to wait for its window, or has until now.
func (d *decision) awaitsWindow() bool {
	r := d.r
	shown, _ := batch.WindowClosed(&r.status)
	return (d.closed != "" || shown != nil) && r.status.StartTime == nil && r.pods.len() == 0 && !r.spec.suspend && !r.deleting
}

// waitForWindow decides on a Job that awaits its window: nothing of it begins. When it opens, that is stored before anything
// begins, so that whatever else may hold back the Job can do so.
func (d *decision) waitForWindow() {
	if d.showWindow(); d.forced {
		d.Status = append(d.Status, d.next)
		d.More = d.closed == ""
	}
}

// showWindow sets the condition JobWindowClosed according to the window.
func (d *decision) showWindow() {
	c, _ := batch.WindowClosed(&d.next)
	closed := d.closed != "" && !d.r.deleting && d.end == nil
	switch {
	case closed && c == nil:
		setCondition(&d.next.Conditions, batch.JobWindowClosed, corev1.ConditionTrue, "WindowClosed", d.closed, *d.time())
		d.Events = append(d.Events, Event{corev1.EventTypeNormal, "WindowClosed", d.closed})
	case closed && c.Message != d.closed: // it is another window, or the daemon did not run for a while
		conditions := append(d.next.Conditions[:0:0], d.next.Conditions...)
		for i := range conditions {
			if conditions[i].Type == batch.JobWindowClosed {
				conditions[i].Message = d.closed
			}
		}
		d.next.Conditions = conditions
	case !closed && c != nil && d.end == nil:
		setCondition(&d.next.Conditions, batch.JobWindowClosed, corev1.ConditionFalse, "WindowOpen", "Its window is open", *d.time())
		d.Events = append(d.Events, Event{corev1.EventTypeNormal, "WindowOpen", "Its window is open"})
	case !closed && c != nil:
		setCondition(&d.next.Conditions, batch.JobWindowClosed, corev1.ConditionFalse, "JobEnded", "Job ended", *d.time())
	default:
		return
	}
	d.forced = true
}
