package submit

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jobd/jobd/api/batch"
)

// Flags say when the Job of a script starts, and beat its lines.
func TestWhenAScriptStarts(t *testing.T) {
	// A year from now, and a day more.
	begin := time.Now().AddDate(1, 0, 0).Format(time.DateOnly) + "T12:00:00"
	other := time.Now().AddDate(1, 0, 1).Format(time.DateOnly) + "T12:00:00Z"
	script := "#!/bin/sh\n#SBATCH --begin=" + begin + " --dependency=afterok:prep\n"
	for _, c := range []struct {
		flags     []string
		at, after string
	}{
		{nil, begin, "prep:ok"},
		{[]string{"--at", other}, other, "prep:ok"},
		{[]string{"--after", "check:any"}, begin, "check:any"},
	} {
		j, err := submitted(t, script, append(c.flags, "--image", "busybox:1.36")...)
		if err != nil {
			t.Fatal(err)
		}
		at, after := j.Annotations[batch.StartAtAnnotation], j.Annotations[batch.AfterAnnotation]
		if !strings.HasPrefix(at, c.at) || after != c.after || j.Spec.Suspend == nil || !*j.Spec.Suspend {
			t.Errorf("%q: at %s, after %s", c.flags, at, after)
		}
	}
}

func TestAtIsSaidOnce(t *testing.T) {
	now := time.Date(2026, 11, 27, 21, 30, 0, 0, time.UTC)
	m := &Manifests{Job: &unstructured.Unstructured{Object: map[string]any{}}}
	if m.StartsAt() != "" {
		t.Error(m.StartsAt())
	}
	if err := m.setAt("22:00", now); err != nil || m.StartsAt() != "it starts at Fri 2026-11-27 22:00:00 +00:00" {
		t.Errorf("%s %v", m.StartsAt(), err)
	}
	if err := m.setAt("23:00", now); err == nil || !strings.Contains(err.Error(), "--at: the file says it too, by jobd.dev/start-at: 2026-11-27T22:00:00Z") {
		t.Error(err)
	}
	if err := m.setAt("soon", now); err == nil || !strings.HasPrefix(err.Error(), `--at: "soon" is not a time such as`) {
		t.Error(err)
	}
}
