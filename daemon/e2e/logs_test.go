package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// saying is a Job whose pods run a script.
func saying(name, script, jobFields, podFields string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  %s
  template:
    spec:
      %s
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, %q]
---
`, name, jobFields, podFields, script)
}

func sorted(text string) []string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	slices.Sort(lines)
	return lines
}

func (d *daemon) logsLeft() (dirs []string) {
	entries, err := os.ReadDir(filepath.Join(d.root, "logs"))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range entries {
		dirs = append(dirs, e.Name())
	}
	return dirs
}

func TestLogOfAJob(t *testing.T) {
	t.Parallel()
	d := start(t, "--pod-backoff-base", "1s")
	again := `echo "out $JOB_COMPLETION_INDEX"; echo "err $JOB_COMPLETION_INDEX" >&2; [ -e /out/$JOB_COMPLETION_INDEX ] || { touch /out/$JOB_COMPLETION_INDEX; exit 1; }`
	manifest := saying("many", again, "completions: 2\n  parallelism: 2\n  completionMode: Indexed",
		fmt.Sprintf(
			"restartPolicy: OnFailure\n      volumes: [{name: out, hostPath: {path: %s}}]\n      initContainers: [{name: init, "+
				"image: \"busybox:1.36\", command: [echo, ready]}]",
			t.TempDir(),
		))
	d.apply(strings.Replace(manifest, "      - name: c\n", "      - name: c\n        volumeMounts: [{name: out, mountPath: /out}]\n", 1))

	t.Run("shows what pods have printed that are gone", func(t *testing.T) {
		d.apply(saying("fails", `echo "out of $HOSTNAME"; echo oops >&2; exit 3`, "backoffLimit: 1", "restartPolicy: Never") +
			saying("late", "echo before; sleep 1000", "backoffLimit: 0", "restartPolicy: Never\n      terminationGracePeriodSeconds: 0") +
			saying("paused", "echo until paused; sleep 1000", "", "restartPolicy: Never\n      terminationGracePeriodSeconds: 0"))
		d.failed("fails", "BackoffLimitExceeded")
		var want []string
		for _, p := range d.pods("fails") {
			want = append(want, "oops", "out of "+p.Name)
			d.jobctl("delete", "pod", p.Name)
		}
		slices.Sort(want)
		for _, when := range []string{"at once", "after a crash"} {
			if got := sorted(d.jobctl("logs", "jobs/fails")); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
			d.kill()
			d.serve()
		}
		d.running("paused", 1)
		d.eventually("it has spoken", func() error { return saysNow(d, "paused", "until paused\n") })
		d.jobctl("patch", "job", "paused", "--patch", `{"spec":{"suspend":true}}`)
		d.eventually("the late one has spoken", func() error { return saysNow(d, "late", "before\n") })
		d.jobctl("patch", "job", "late", "--patch", `{"spec":{"activeDeadlineSeconds":1}}`)
		d.failed("late", "DeadlineExceeded")
		d.eventually("the pods are gone", func() error {
			if n := len(d.pods("paused")) + len(d.pods("late")); n > 0 {
				return fmt.Errorf("%d are there", n)
			}
			return nil
		})
		for job, want := range map[string]string{"paused": "until paused\n", "late": "before\n"} {
			if got := d.jobctl("logs", "jobs/"+job); got != want {
				t.Errorf("%s: %q, want %q", job, got, want)
			}
		}
		d.jobctl("delete", "jobs", "fails", "paused", "late")
		d.eventually("the logs went with their Jobs", func() error {
			for _, dir := range d.logsLeft() {
				if !strings.Contains(dir, "_many-") {
					return fmt.Errorf("left: %s", dir)
				}
			}
			return nil
		})
	})

	t.Run("has index, attempt and stream before each line, and what is asked for alone", func(t *testing.T) {
		d.complete("many")
		for options, want := range map[string][]string{
			"":                                 {"err 0", "err 1", "out 0", "out 1"},
			"--stream=stderr":                  {"err 0", "err 1"},
			"--tail=2 --stream=stdout":         {"out 0", "out 1"},
			"--tail=0":                         nil,
			"--limit-bytes=3 --stream=stdout":  {"out"},
			"--since-time=2100-01-01T00:00Z":   nil,
			"--previous":                       {"err 0", "err 1", "out 0", "out 1"},
			"-c init --prefix --all-restarts":  {"[pod/many-0/init index=0 stdout] ready", "[pod/many-1/init index=1 stdout] ready"},
			"--all-containers --stream=stdout": {"out 0", "out 1", "ready", "ready"},
			"--all-restarts --prefix": {
				"[pod/many-0/c index=0 restart=1 stderr] err 0", "[pod/many-0/c index=0 restart=1 stdout] out 0",
				"[pod/many-0/c index=0 stderr] err 0", "[pod/many-0/c index=0 stdout] out 0",
				"[pod/many-1/c index=1 restart=1 stderr] err 1", "[pod/many-1/c index=1 restart=1 stdout] out 1",
				"[pod/many-1/c index=1 stderr] err 1", "[pod/many-1/c index=1 stdout] out 1",
			},
		} {
			options = strings.Replace(options, "00:00Z", "00:00:00Z", 1)
			if !strings.Contains(options, "-c ") && !strings.Contains(options, "--all-containers") {
				options += " -c c" // which is the default, but given explicitly
			}
			got := sorted(podName.ReplaceAllString(d.jobctl(append([]string{"logs", "jobs/many"}, strings.Fields(options)...)...), "pod/$1/"))
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", options, got, want)
			}
		}
		if out := d.jobctl("logs", "jobs/many", "-c", "c", "--timestamps", "--tail=2"); !stamped.MatchString(out) {
			t.Errorf("with timestamps: %q", out)
		}
		for options, refusal := range map[string]string{
			"-c other":                  "container other is not valid for job many out of: [init c]",
			"--stream=all":              "--stream is stdout or stderr",
			"--previous --all-restarts": "at most one of",
			"-c init --previous":        `previous terminated container "init" in job "many" not found`,
		} {
			if out, err := d.try("jobctl", nil, append([]string{"logs", "jobs/many"}, strings.Fields(options)...)...); err == nil ||
				!strings.Contains(out, refusal) {
				t.Errorf("%s: %v: %q, want %q", options, err, out, refusal)
			}
		}
	})

	t.Run("is followed through all its pods until it has finished", func(t *testing.T) {
		d.apply(saying("followed", `echo "begin"; sleep 1; echo "end"`, "completions: 3", "restartPolicy: Never"))
		if got := d.jobctl("logs", "-f", "jobs/followed"); got != "begin\nend\nbegin\nend\nbegin\nend\n" {
			t.Errorf("%q", got)
		}
		if job, err := d.BatchV1().Jobs("default").Get(t.Context(), "followed", metav1.GetOptions{}); err != nil || condition(job, batchv1.JobComplete) == nil {
			t.Errorf("it ended before its Job: %v", err)
		}
		if got := d.jobctl("logs", "-f", "--tail=1", "jobs/followed"); got != "end\n" {
			t.Errorf("when all is over: %q", got)
		}
	})

	t.Run("says why there is none", func(t *testing.T) {
		d.apply(
			strings.Replace(saying("imageless", "true", "", "restartPolicy: Never"), "busybox:1.36", "example.invalid/none\n        imagePullPolicy: Never", 1),
		)
		d.eventually("it is told", func() error {
			if out, err := d.try("jobctl", nil, "logs", "jobs/imageless"); err == nil || !strings.Contains(out, "is waiting to start: ErrImageNeverPull") {
				return fmt.Errorf("%v: %s", err, out)
			}
			return nil
		})
	})
}

func TestKeptLogsAreBounded(t *testing.T) {
	t.Parallel()
	d := start(t, "--kept-logs-size", "100Ki")
	d.apply(
		saying(
			"loud", `head -c 65536 /dev/zero | tr '\0' x; echo; exit 1`,
			"backoffLimit: 0\n  parallelism: 3\n  completions: 3\n  podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [99]}}]}",
			"restartPolicy: Never",
		),
	)
	d.failed("loud", "BackoffLimitExceeded")
	for _, p := range d.pods("loud") {
		d.jobctl("delete", "pod", p.Name, "--ignore-not-found") // the Job's end may have removed it
	}
	d.eventually("the newest one is left", func() error {
		if left := d.logsLeft(); len(left) != 1 {
			return fmt.Errorf("left: %q", left)
		}
		return nil
	})
	d.kill()
	d.flags = []string{"--kept-logs-age", "1ns"}
	d.serve()
	d.eventually("what is too old has gone", func() error {
		if left := d.logsLeft(); len(left) > 0 {
			return fmt.Errorf("left: %q", left)
		}
		return nil
	})
}

// TestKeptLogsOutliveTheirJob reads what Jobs have printed that are gone, by kill -9 too, and whose annotation keeps it.
func TestKeptLogsOutliveTheirJob(t *testing.T) {
	t.Parallel()
	d := start(t)
	keeping := func(name, namespace string) string {
		job := saying(
			name, `echo "of $HOSTNAME"; [ $JOB_COMPLETION_INDEX = 0 ]`, "completionMode: Indexed\n  completions: 2\n  backoffLimit: 0", "restartPolicy: Never",
		)
		return strings.Replace(job, "{name: "+name+"}", `{name: `+name+`, namespace: `+namespace+`, annotations: {jobd.dev/keep-logs: "true"}}`, 1)
	}
	d.jobctl("create", "namespace", "other")
	d.apply(keeping("kept", "default") + keeping("kept", "other") + saying("lost", "echo lost", "", "restartPolicy: Never"))
	d.jobctl("wait", "--for=condition=complete", "jobs/lost")
	for _, namespace := range []string{"default", "other"} {
		d.jobctl("wait", "--for=condition=failed", "-n", namespace, "jobs/kept")
	}
	whole := d.jobctl("logs", "jobs/kept", "--prefix")
	d.jobctl("delete", "jobs/kept", "jobs/lost")
	d.jobctl("delete", "-n", "other", "jobs/kept")
	d.eventually("its pods are gone", func() error {
		if left := d.logsLeft(); len(left) != 4 {
			return fmt.Errorf("left: %q", left)
		}
		return nil
	})
	said := func(args ...string) {
		t.Helper()
		d.eventually("it is read", func() error {
			out, err := d.try("jobctl", nil, append([]string{"logs", "--prefix"}, args...)...)
			if err != nil || !strings.Contains(out, whole) || !strings.Contains(out, "job kept is gone") {
				return fmt.Errorf("%v: %q, it had printed %q", err, out, whole)
			}
			return nil
		})
	}
	said("jobs/kept")
	d.kill()
	d.serve()
	said("kept", "-f")
	if out, err := d.try("jobctl", nil, "logs", "jobs/lost"); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("%v: %s", err, out)
	}
	d.jobctl("delete", "namespace", "other")
	d.jobctl("create", "namespace", "other")
	if out, err := d.try("jobctl", nil, "logs", "jobs/kept", "-n", "other"); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("of a namespace that is gone: %v: %s", err, out)
	}
	d.eventually("what the namespace had is gone", func() error {
		if left := d.logsLeft(); len(left) != 2 {
			return fmt.Errorf("left: %q", left)
		}
		return nil
	})
}

func TestLogsAreRotated(t *testing.T) {
	t.Parallel()
	d := start(t, "--container-log-max-size", "16Ki", "--container-log-max-files", "10")
	// It writes before the daemon dies, while it is down, and when it is back.
	go1, go2 := filepath.Join(t.TempDir(), "go1"), filepath.Join(t.TempDir(), "go2")
	script := `for n in 1 2 3; do i=0; while [ $i -lt 200 ]; do echo "$n $i"; [ $((i % 2)) = 0 ] && echo "$n $i" >&2; i=$((i+1)); done; [ $n = 3 ] || while [ ! -e /go$n/go$n ]; do sleep 0.1; done; done`
	manifest := saying(
		"loud", script, "",
		fmt.Sprintf(
			"restartPolicy: Never\n      volumes: [{name: go1, hostPath: {path: %s}}, {name: go2, hostPath: {path: %s}}]",
			filepath.Dir(go1), filepath.Dir(go2),
		),
	)
	d.apply(
		strings.Replace(
			manifest, "      - name: c\n",
			"      - name: c\n        volumeMounts: [{name: go1, mountPath: /go1}, {name: go2, mountPath: /go2}]\n", 1,
		),
	)
	pod := d.running("loud", 1)[0].Name
	followed, err := os.Create(filepath.Join(t.TempDir(), "followed"))
	if err != nil {
		t.Fatal(err)
	}
	defer followed.Close()
	follow := exec.CommandContext(t.Context(), filepath.Join(bin, "jobctl"), "logs", "-f", "--stream=stderr", pod)
	follow.Env, follow.Stdout = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "HOME="+t.TempDir()), followed
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	lines := func(stream string, from, to, step int) string {
		var want strings.Builder
		for n := from; n <= to; n++ {
			for i := 0; i < 200; i += step {
				fmt.Fprintf(&want, "%d %d\n", n, i)
			}
		}
		return want.String()
	}
	d.eventually("the first part is there", func() error {
		if out := d.jobctl("logs", "--stream=stdout", pod); out != lines("stdout", 1, 1, 1) {
			return errors.New(out)
		}
		return nil
	})
	d.eventually("it is followed", func() error {
		if got, err := os.ReadFile(followed.Name()); err != nil || string(got) != lines("stderr", 1, 1, 2) {
			return fmt.Errorf("%v: %q", err, got)
		}
		return nil
	})
	d.kill()
	_ = follow.Wait() // its connection is gone
	if err := os.WriteFile(go1, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d.serve()
	var again bytes.Buffer
	follow = exec.CommandContext(t.Context(), filepath.Join(bin, "jobctl"), "logs", "-f", "--stream=stdout", "jobs/loud")
	follow.Env, follow.Stdout = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "HOME="+t.TempDir()), &again
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	d.eventually("the second part is there", func() error {
		if out := d.jobctl("logs", "--stream=stdout", pod); !strings.HasSuffix(out, lines("stdout", 2, 2, 1)) {
			return errors.New(out)
		}
		return nil
	})
	if err := os.WriteFile(go2, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d.complete("loud")
	if err := follow.Wait(); err != nil || again.String() != lines("stdout", 1, 3, 1) {
		t.Errorf("followed to the end %q: %v", again.String(), err)
	}
	if out := d.jobctl("logs", pod, "--tail=300"); strings.Count(out, "\n") != 300 || !strings.Contains(out, "3 199\n") { // its two streams end in either order
		t.Errorf("--tail: %q", out)
	}
	files, err := filepath.Glob(filepath.Join(d.root, "logs", "*", "c", "0.log*"))
	if err != nil || len(files) < 3 {
		t.Errorf("files %q, %v", files, err)
	}
}

func saysNow(d *daemon, job, want string) error {
	out, err := d.try("jobctl", nil, "logs", "jobs/"+job)
	if err != nil || out != want {
		return fmt.Errorf("%q, %w", out, err)
	}
	return nil
}

var (
	podName = regexp.MustCompile(`pod/([a-z]+-[0-9])-[a-z0-9]{5}/`)
	stamped = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT[0-9:.]+Z (out|err) [01]\n){2}$`)
)
