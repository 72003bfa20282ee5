package core

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/window"
)

const (
	// WindowAnnotation of a Job says at which times its pods may start (window.Parse). Of a namespace it is that of all its Jobs that
	// have none. It means nothing to a cluster.
	WindowAnnotation = "jobd.dev/window"
	// WindowTimeZoneAnnotation is the time zone in which those are, by its name; without it, that of the machine.
	WindowTimeZoneAnnotation = "jobd.dev/window-time-zone"
	// WindowEndAnnotation is what becomes of pods that run when the window closes: WindowFinish without it.
	WindowEndAnnotation = "jobd.dev/window-end"
)

// What becomes of the pods of a Job when its window closes.
const (
	WindowFinish = "finish" // they run to their end
	WindowPause  = "pause"  // they are frozen until it opens
	WindowStop   = "stop"   // they end as those of a suspended Job, and others start when it opens
)

var windowEnds = []string{WindowFinish, WindowPause, WindowStop}

// Window is when the pods of a Job may start. Nil means always.
type Window struct {
	*window.Window
	End  string
	Text string // all that annotations say of it, see WindowText
}

// At reports whether the window is open at a time, and when that changes; zero for never.
func (w *Window) At(t time.Time) (open bool, until time.Time) {
	if w == nil {
		return true, time.Time{}
	}
	return w.Window.At(t)
}

// WindowOf returns the window that annotations of a Job, or of a namespace, describe; nil if they describe none, or are not valid.
func WindowOf(annotations map[string]string) *Window {
	if _, ok := annotations[WindowAnnotation]; !ok {
		return nil
	}
	w, errs := readWindow(annotations, field.NewPath("metadata", "annotations"))
	if len(errs) > 0 {
		return nil
	}
	return w
}

// WindowText returns all that annotations say of a window: it differs where that differs. It is empty if they describe none.
func WindowText(annotations map[string]string) string {
	text, ok := annotations[WindowAnnotation]
	if !ok {
		return ""
	}
	return text + "; " + annotations[WindowTimeZoneAnnotation] + "; " + annotations[WindowEndAnnotation]
}

// ValidateWindow checks the annotations of a Job, of the Jobs of a CronJob, or of a namespace.
func ValidateWindow(annotations map[string]string, path *field.Path) field.ErrorList {
	_, errs := readWindow(annotations, path)
	return errs
}

func readWindow(annotations map[string]string, path *field.Path) (w *Window, errs field.ErrorList) {
	text, ok := annotations[WindowAnnotation]
	name, zoned := annotations[WindowTimeZoneAnnotation]
	end, ends := annotations[WindowEndAnnotation]
	if !ok && (zoned || ends) {
		return nil, field.ErrorList{field.Required(path.Key(WindowAnnotation), "says when the window is")}
	}
	if !ok {
		return nil, nil
	}
	zone := time.Local
	if zoned {
		loaded, err := time.LoadLocation(name)
		if err != nil || name == "" || strings.EqualFold(name, "Local") {
			errs = append(errs, field.Invalid(path.Key(WindowTimeZoneAnnotation), name, `is not a time zone such as "Europe/Berlin"`))
		} else {
			zone = loaded
		}
	}
	if !ends {
		end = WindowFinish
	} else if !slices.Contains(windowEnds, end) {
		errs = append(errs, field.NotSupported(path.Key(WindowEndAnnotation), end, windowEnds))
	}
	times, err := window.Parse(text, zone)
	if err != nil {
		errs = append(errs, field.Invalid(path.Key(WindowAnnotation), text, err.Error()))
	}
	return &Window{times, end, WindowText(annotations)}, errs
}
