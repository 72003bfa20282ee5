package submit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// What is shown on the desktop says how the Job has ended; a word of the Job's is neither an option nor markup.
func TestDesktop(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	program := "#!/bin/sh\nfor a; do echo \"$a\"; done >" + out + "\n"
	if err := os.WriteFile(filepath.Join(dir, notifySend), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	j := &batchv1.Job{}
	j.Name = "train"
	for name, c := range map[string]struct {
		ended  Ended
		failed error
		want   []string // the arguments, but for the first; the last one's beginning
	}{
		"complete":    {Ended{Job: j}, nil, []string{"--urgency=normal", "--", "Job train", ""}},
		"failed":      {Ended{Job: j, Result: Result{Code: 3}}, nil, []string{"--urgency=critical", "--", "Job train", ""}},
		"error":       {Ended{}, errors.New("<b>-x</b>"), []string{"--urgency=critical", "--", "The Job could not be followed", "&lt;b&gt;-x"}},
		"interrupted": {Ended{Job: j, Interrupted: true}, nil, nil},
	} {
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		_ = os.Remove(out)
		o := &FollowOptions{Notify: true}
		if said := o.DesktopMissing(); said != "" {
			t.Errorf("%s: %s", name, said)
		}
		if err := o.tellDesktop(c.ended, c.failed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		said, _ := os.ReadFile(out)
		lines := strings.Split(strings.TrimSuffix(string(said), "\n"), "\n")
		if c.want == nil {
			if len(said) > 0 {
				t.Errorf("%s: %s", name, said)
			}
			continue
		}
		if len(lines) != 5 || !slices.Equal(lines[1:4], c.want[:3]) || !strings.HasPrefix(lines[4], c.want[3]) {
			t.Errorf("%s: %q", name, lines)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "none"))
	o := &FollowOptions{Notify: true}
	if said := o.DesktopMissing(); !strings.Contains(said, "there is no notify-send") {
		t.Errorf("without it: %q", said)
	}
	if err := o.tellDesktop(Ended{Job: j}, nil); err != nil {
		t.Error(err)
	}
	o.Notify = false
	if said := o.DesktopMissing(); said != "" {
		t.Errorf("unasked for: %q", said)
	}
}
