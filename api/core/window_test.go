package core

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWindowAnnotations(t *testing.T) {
	for _, c := range []struct{ window, zone, end, want string }{
		{"22:00-06:00 Mon-Fri", "", "", ""},
		{"22:00-06:00", "Europe/Berlin", "pause", ""},
		{"22:00-06:00", "UTC", "stop", ""},
		{"22:00", "", "", `annotations[jobd.dev/window]: Invalid value: "22:00"`},
		{"22:00-22:00", "", "", "annotations[jobd.dev/window]: Invalid value: \"22:00-22:00\": \"22:00-22:00\" never opens"},
		{"22:00-06:00", "Europe/Atlantis", "", "annotations[jobd.dev/window-time-zone]: Invalid value"},
		{"22:00-06:00", "local", "", "annotations[jobd.dev/window-time-zone]: Invalid value"},
		{"22:00-06:00", "../etc/passwd", "", "annotations[jobd.dev/window-time-zone]: Invalid value"},
		{"22:00-06:00", "", "kill", `annotations[jobd.dev/window-end]: Unsupported value: "kill": supported values: "finish", "pause", "stop"`},
		{"", "UTC", "", "annotations[jobd.dev/window]: Required value"},
		{"", "", "stop", "annotations[jobd.dev/window]: Required value"},
	} {
		a := map[string]string{}
		for name, value := range map[string]string{WindowAnnotation: c.window, WindowTimeZoneAnnotation: c.zone, WindowEndAnnotation: c.end} {
			if value != "" {
				a[name] = value
			}
		}
		err := ValidateWindow(a, field.NewPath("annotations")).ToAggregate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v", a, err)
		}
		if w := WindowOf(a); (w == nil) != (c.want != "") {
			t.Errorf("%v: %v", a, w)
		}
	}
	if w := WindowOf(map[string]string{WindowAnnotation: "22:00-06:00"}); w.End != WindowFinish || w.Zone() != time.Local {
		t.Errorf("%v", w)
	}
	if ValidateWindow(map[string]string{WindowAnnotation: ""}, field.NewPath("annotations")) == nil {
		t.Error("an empty window is not refused")
	}
}
