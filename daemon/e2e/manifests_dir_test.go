package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A directory of manifests is applied as it is, through changes, errors, restarts and kills, and no Job in it runs twice.
func TestManifestsDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests.d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	config := func(name, value string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {x: %q}\n---\n", name, value)
	}
	// Each run leaves a line in a file of the host.
	once := func(word string, ttl int) string {
		return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  ttlSecondsAfterFinished: %d
  template:
    spec:
      restartPolicy: Never
      volumes: [{name: out, hostPath: {path: %s}}]
      containers:
      - name: c
        image: busybox:1.36
        volumeMounts: [{name: out, mountPath: /out}]
        command: [sh, -c, "echo %s >>/out/runs"]
---
`, ttl, out, word)
	}
	runs := func() string {
		text, _ := os.ReadFile(filepath.Join(out, "runs"))
		return strings.Join(strings.Fields(string(text)), " ")
	}
	write("a.yaml", config("a", "1")+config("b", "1")+once("first", 1000))
	write("nightly.yaml", `
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: team, annotations: {jobd.dev/notfy: ops}}
spec:
  schedule: "@yearly"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36"}]}}}}
`)
	d := start(t, "--network", "none", "--manifests", dir)
	data := func(name string) string {
		text, err := d.try("jobctl", nil, "get", "configmaps/"+name, "-o", "jsonpath={.data.x} {.metadata.labels}")
		if err != nil {
			return "none"
		}
		return text
	}
	is := func(what, want string, get func() string) {
		t.Helper()
		d.eventually(what, func() error {
			if got := get(); got != want && !strings.HasPrefix(got, want+" ") {
				return fmt.Errorf("%q, want %q", got, want)
			}
			return nil
		})
	}
	is("the Job runs", "first", runs)
	is("a is there", "1", func() string { return data("a") })
	if got := data("a"); !strings.Contains(got, `"applyset.kubernetes.io/part-of":"applyset-`) {
		t.Errorf("a has no label of an ApplySet: %s", got)
	}
	d.eventually("the CronJob", func() error {
		_, err := d.try("jobctl", nil, "get", "-n", "team", "cronjobs/nightly")
		return err
	})
	if text := d.jobctl("get", "jobs/once", "-o", "jsonpath={.metadata.managedFields[*].manager}"); !strings.Contains(text, "jobd-manifests") {
		t.Errorf("field managers %s", text)
	}

	// What has changed is applied, what has gone is removed, and what others have made stays.
	d.jobctl("create", "configmap", "theirs", "--from-literal=x=theirs")
	write("b.yaml", config("theirs", "ours"))
	write("a.yaml", config("a", "2")+once("first", 1000))
	is("a is changed", "2", func() string { return data("a") })
	is("b is removed", "none", func() string { return data("b") })
	d.eventually("an event", func() error {
		text := d.jobctl("get", "events")
		if !strings.Contains(text, "FailedManifest") || !strings.Contains(text, "ConfigMap default/theirs: it exists already") {
			return fmt.Errorf("events: %s", text)
		}
		return nil
	})
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}

	// A file that is written slowly neither removes what it does not have yet, nor runs a Job again.
	uid := d.jobctl("get", "jobs/once", "-o", "jsonpath={.metadata.uid}")
	write("a.yaml", config("a", "3"))
	is("what is there of it is applied", "3", func() string { return data("a") })
	write("a.yaml", config("a", "2")+strings.Split(once("half", 1000), "    spec:")[0])
	is("and is changed back", "2", func() string { return data("a") })
	write("a.yaml", config("a", "2")+once("first", 1000))
	time.Sleep(11 * time.Second)
	if got := d.jobctl("get", "jobs/once", "-o", "jsonpath={.metadata.uid}"); got != uid || runs() != "first" {
		t.Errorf("the Job is %s, before %s; runs: %s", got, uid, runs())
	}

	// An error in a Job that has run leaves it as it is.
	write("a.yaml", config("a", "2")+strings.Replace(once("typo", 1000), "spec:", "spec:\n  backoffLimit: -1", 1))
	d.eventually("an event of the error", func() error {
		if text := d.jobctl("get", "events"); !strings.Contains(text, "Job default/once: ") || !strings.Contains(text, "spec.backoffLimit") {
			return fmt.Errorf("events: %s", text)
		}
		return nil
	})
	if got := d.jobctl("get", "jobs/once", "-o", "jsonpath={.status.succeeded}"); strings.TrimSpace(got) != "1" {
		t.Errorf("the Job after the error: %s", got)
	}
	write("a.yaml", config("a", "2")+once("first", 1000))

	// A syntax error stops neither other files nor removes anything.
	write("a.yaml", config("a", "3")+"kind: [")
	write("c.yaml", config("c", "1"))
	is("c is there", "1", func() string { return data("c") })
	if got := data("a"); !strings.HasPrefix(got, "2 ") {
		t.Errorf("a is %s after a syntax error", got)
	}
	settings := filepath.Join(t.TempDir(), "jobd.yaml")
	if err := os.WriteFile(settings, []byte("manifests: "+dir+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text, _ := d.try("jobd", nil, "doctor", "--root", d.root, "--state", d.state, "--config", settings)
	if !strings.Contains(text, "a.yaml: is not applied: document 2") ||
		!strings.Contains(text, "CronJob team/nightly: ") || !strings.Contains(text, "jobd.dev/notfy") {
		t.Errorf("doctor says\n%s", text)
	}
	is("the metric", "jobd_manifests_problems 1", func() string {
		for line := range strings.Lines(d.jobctl("get", "--raw", "/metrics")) {
			if strings.HasPrefix(line, "jobd_manifests_problems ") {
				return strings.TrimSpace(line)
			}
		}
		return ""
	})
	if got := data("theirs"); got != "theirs " && got != "theirs" {
		t.Errorf("what others have made is %q", got)
	}

	// Neither a restart nor a kill runs it again, nor once its TTL has removed it; a change does.
	d.kill()
	if out := d.output.String(); !strings.Contains(out, `a manifest was applied with a warning`) || !strings.Contains(out, "jobd.dev/notify") {
		t.Errorf("nothing says that jobd.dev/notfy is unknown:\n%s", out)
	}
	write("a.yaml", config("a", "4")+once("second", 0))
	d.serve()
	is("a Job that has changed runs again", "first second", runs)
	is("and is gone", "", func() string { return strings.TrimSpace(d.jobctl("get", "jobs", "-o", "name")) })
	is("a is applied", "4", func() string { return data("a") })
	d.kill()
	if err := os.Remove(filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	d.serve()
	is("what was removed meanwhile is", "none", func() string { return data("c") })
	write("a.yaml", config("a", "5")+once("second", 0))
	is("a is applied once more", "5", func() string { return data("a") })
	if got := runs(); got != "first second" {
		t.Errorf("runs: %s", got)
	}
}
