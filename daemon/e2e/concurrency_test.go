package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jobd/jobd/api/batch"
)

// Of a concurrency group only so many Jobs run at a time, retries included, whenever the daemon is killed.
func TestConcurrencyGroups(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--pod-backoff-base", "1s")
	dir := t.TempDir()
	member := func(name, policy, command string) string {
		j := failing(name, command)
		j.metadata = "annotations: {jobd.dev/concurrency-group: db, jobd.dev/concurrency-limit: \"1\", jobd.dev/concurrency-policy: " + policy + "}"
		j.spec = "backoffLimit: 1"
		j.container = "volumeMounts: [{name: d, mountPath: /data}]"
		j.pod = "volumes: [{name: d, hostPath: {path: " + dir + "}}]"
		return j.String()
	}
	// Whoever finds the lock taken says so. The first attempt of each fails, and the lock is then not taken between both. None ends before
	// the views were looked at.
	locked := func(name string) string {
		return "until test -e /data/go; do sleep 0.1; done; mkdir /data/lock || touch /data/two; sleep 1; rmdir /data/lock; test -e /data/" + name + " || { touch /data/" + name + "; exit 1; }"
	}
	for _, name := range []string{"a", "b", "c"} {
		d.apply(member(name, "Queue", locked(name)))
	}
	if out := d.jobctl("get", "jobs"); strings.Count(out, "Group:db") < 1 {
		t.Errorf("%s", out)
	}
	if out := d.jobctl("get", "groups"); !strings.Contains(out, "db      1       1         2         a, then b,c") {
		t.Errorf("%s", out)
	}
	if out := d.jobctl("why", "jobs/c"); !strings.Contains(out, "no place in the concurrency group db (1 of 1 taken)") {
		t.Errorf("%s", out)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d.kill()
		d.serve()
		time.Sleep(1500 * time.Millisecond)
	}
	for i, name := range []string{"a", "b", "c"} {
		j := d.complete(name)
		if j.Status.Failed != 1 {
			t.Errorf("%s: %+v", name, j.Status)
		}
		if i > 0 {
			before := d.complete([]string{"a", "b"}[i-1])
			if j.Status.StartTime.Before(before.Status.CompletionTime) {
				t.Errorf("%s began at %v, and the one before it ended at %v", name, j.Status.StartTime, before.Status.CompletionTime)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "two")); err == nil {
		t.Error("two ran at once")
	}

	d.apply(member("long", "Replace", "sleep 3600"))
	d.running("long", 1)
	d.apply(member("refused", "Forbid", "true"))
	d.failed("refused", batch.ReasonConcurrencyForbidden)
	d.apply(member("newer", "Replace", "sleep 3600"))
	d.failed("long", batch.ReasonConcurrencyReplaced)
	d.running("newer", 1)
	out, err := d.try("jobctl", []byte(member("wrong", "Sometimes", "true")), "apply", "-f", "-")
	if err == nil || !strings.Contains(out, "jobd.dev/concurrency-policy") {
		t.Errorf("%v\n%s", err, out)
	}

	// All Jobs of a namespace.
	d.jobctl("create", "namespace", "team")
	d.jobctl("annotate", "namespace", "team", "jobd.dev/concurrency-limit=1")
	for _, name := range []string{"x", "y"} {
		if out, err := d.try("jobctl", []byte(failing(name, "sleep 3600").String()), "apply", "-n", "team", "-f", "-"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if out := d.jobctl("get", "groups", "-A"); !strings.Contains(out, "team        team    1       1         1         x, then y") {
		t.Errorf("%s", out)
	}
	if out := d.jobctl("get", "jobs", "-n", "team"); strings.Count(out, "Group:team") != 1 {
		t.Errorf("%s", out)
	}
	d.jobctl("pause", "jobs/y", "-n", "team")
	if out := d.jobctl("get", "jobs", "y", "-n", "team"); !strings.Contains(out, "Paused") {
		t.Errorf("%s", out)
	}
}
