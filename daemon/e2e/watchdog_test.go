package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hanging is a daemon that hangs where it is told to. Its watchdog is less patient than usual.
type hanging struct {
	*daemon
	control string // the directory in which it is told
}

func startHanging(t *testing.T, env []string, flags ...string) *hanging {
	t.Helper()
	build, control := crashBuild(t), t.TempDir()
	h := &hanging{control: control, daemon: &daemon{t: t, build: build, flags: flags, env: append([]string{
		"JOBD_CRASH=" + control, "JOBD_WATCHDOG_TICK=200ms", "JOBD_WATCHDOG_SLOW=1s", "JOBD_WATCHDOG_HUNG=10s", "JOBD_STOP_TIMEOUT=10s", // requests have five
	}, env...)}}
	t.Cleanup(func() { h.goOn() })
	h.begin("/var/tmp")
	return h
}

// hangAt makes the daemon hang whenever it passes a point: spin, or block.
func (h *hanging) hangAt(how, point string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.control, "hangs"), []byte(how+" "+point), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hanging) goOn() { _ = os.Remove(filepath.Join(h.control, "hangs")) }

// says waits until a path of the API says something.
func (h *hanging) says(path, words string) {
	h.t.Helper()
	h.eventually(path+" says "+words, func() error {
		ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
		defer cancel()
		body, err := h.RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if !strings.Contains(string(body), words) {
			return fmt.Errorf("it says %s, %v", body, err)
		}
		return nil
	})
}

// ends waits for the end of the process.
func (h *hanging) ends(code int, words string) {
	h.t.Helper()
	select {
	case <-h.ended:
	case <-time.After(patience):
		h.t.Fatalf("it does not end:\n%s", h.output)
	}
	if got := h.process.ProcessState.ExitCode(); got != code || !strings.Contains(h.output.String(), words) {
		h.t.Fatalf("exit code %d, want %d, and the words %q:\n%s", got, code, words, h.output)
	}
}

// inBackground applies a manifest with a client that is not waited for.
func (h *hanging) inBackground(manifest string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = h.try("jobctl", []byte(manifest), "apply", "--validate=false", "-f", "-")
	}()
	h.t.Cleanup(func() { <-done })
}

func (h *hanging) isSetAside(kind, name string) {
	h.t.Helper()
	h.eventually("an event says that it is set aside", func() error {
		list, err := h.CoreV1().Events("default").List(h.t.Context(), metav1.ListOptions{
			FieldSelector: "reason=SetAside,involvedObject.kind=" + kind + ",involvedObject.name=" + name,
		})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d events do", len(list.Items))
		}
		return err
	})
	if said := h.jobctl("why", strings.ToLower(kind)+"s/"+name); !strings.Contains(said, "leaves it alone until it is changed") {
		h.t.Errorf("why says %s", said)
	}
}

// A Job each of whose pods hangs a pass costs two starts: after the second one it is left alone with all its pods, until it is changed.
func TestAJobWhosePodsHangIsSetAside(t *testing.T) {
	t.Parallel()
	h := startHanging(t, nil)
	stop := t.TempDir()
	h.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: bad}
spec:
  parallelism: 4
  completions: 4
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, "until [ -e /stop/all ] || [ -e /stop/$HOSTNAME ]; do sleep 0.1; done"]
        volumeMounts: [{name: stop, mountPath: /stop}]
      volumes: [{name: stop, hostPath: {path: %s}}]
`, stop))
	h.until("bad", "ready", func(j *batchv1.Job) bool { return j.Status.Ready != nil && *j.Status.Ready == 4 })
	pods := h.pods("bad")
	end := func(name string) {
		if err := os.WriteFile(filepath.Join(stop, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range pods[:3] {
		h.hangAt("spin", "pass pods pods/default/"+p.Name)
		end(p.Name)
		if i < 2 {
			h.ends(70, "on pods/default/"+p.Name)
			h.serve()
		}
	}
	h.isSetAside("Job", "bad")
	if said := h.jobctl("why", "pods/"+pods[2].Name); !strings.Contains(said, "at work on several other pods of Job bad") {
		t.Errorf("why says %s", said)
	}
	h.apply(sleeper("good", 1, 0, ""))
	h.complete("good")
	if n := len(h.pods("bad")); n != 4 {
		t.Errorf("there are %d pods", n)
	}
	h.goOn()
	end("all")
	h.jobctl("annotate", "job/bad", "try-again=yes")
	h.complete("bad")
}

// A pass that hangs on one Job, or the lock of the network on one pod, is seen and ends the daemon. The next one leaves that
// object alone: all others go on, and no container notices.
func TestWhatHangsIsSetAside(t *testing.T) {
	t.Parallel()
	h := startHanging(t, nil)
	stop := t.TempDir()
	h.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: lasting}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, "echo begun; until [ -e /stop/stop ]; do sleep 0.1; done; echo ended"]
        volumeMounts: [{name: stop, mountPath: /stop}]
      volumes: [{name: stop, hostPath: {path: %s}}]
`, stop))
	h.until("lasting", "ready", func(j *batchv1.Job) bool { return j.Status.Ready != nil && *j.Status.Ready == 1 })

	h.hangAt("spin", "pass jobs jobs.batch/default/bad")
	h.inBackground(sleeper("bad", 1, 0, ""))
	for _, path := range []string{"/livez", "/readyz"} {
		h.says(path, "[-]control-loop failed: a pass has been at work for ")
	}
	h.says("/livez", " in jobs on jobs.batch/default/bad\n")
	h.says("/metrics", "jobd_watchdog_slow_total{section=\"control-loop\"} 1")
	if out := h.jobctl("get", "jobs"); !strings.Contains(out, "lasting") {
		t.Errorf("while it hangs, a list is %s", out)
	}
	h.ends(70, "jobd hangs and ends itself")

	h.serve() // it would hang again
	h.apply(sleeper("bad", 1, 0, ""))
	h.isSetAside("Job", "bad")
	h.apply(sleeper("good", 1, 0, ""))
	h.complete("good")
	h.says("/readyz", "ok")
	h.says("/metrics", "jobd_set_aside_objects 1")
	h.terminate()
	h.serve()
	if pods := h.pods("bad"); len(pods) > 0 {
		t.Errorf("it has %d pods", len(pods))
	}
	h.goOn() // mended, but nobody has said so
	h.jobctl("annotate", "job/bad", "try-again=yes")
	h.complete("bad")

	h.hangAt("block", "network default held")
	h.apply(hangingPod("held", ""))
	h.says("/readyz", "[-]network failed: the lock of the network has been at work for ")
	h.ends(70, "on pods/default/held")
	h.serve()
	h.isSetAside("Pod", "held")
	h.apply(sleeper("better", 1, 0, ""))
	h.complete("better")
	h.jobctl("delete", "pod", "held", patiently)

	if err := os.WriteFile(filepath.Join(stop, "stop"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h.complete("lasting")
	if got := h.jobctl("logs", "jobs/lasting"); got != "begun\nended\n" {
		t.Errorf("the container that ran meanwhile has printed %q", got)
	}
}

// A transaction that hangs ends the daemon too. No object is set aside for it.
func TestATransactionThatHangs(t *testing.T) {
	t.Parallel()
	h := startHanging(t, nil, "--runtime", "simulated")
	h.hangAt("block", "transaction")
	h.inBackground(sleeper("bad", 1, 0, ""))
	h.says("/livez", "[-]database failed: a transaction of the database has been at work for ")
	h.ends(70, "jobd hangs and ends itself")
	h.goOn()
	if _, err := os.Stat(filepath.Join(h.root, "set-aside.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was set aside: %v", err)
	}
	h.serve()
	h.apply(sleeper("good", 1, 0, ""))
	h.complete("good")
}

// SIGTERM ends a daemon whose pass hangs, and a second one ends it at once.
func TestSIGTERMEndsWhatHangs(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"spin", "block"} {
		t.Run(how, func(t *testing.T) {
			h := startHanging(t, []string{"JOBD_WATCHDOG_HUNG=1h"}, "--runtime", "simulated")
			hang := func() {
				t.Helper()
				h.hangAt(how, "pass jobs jobs.batch/default/bad")
				h.inBackground(sleeper("bad", 1, 0, ""))
				h.says("/livez", "[-]control-loop failed")
				if err := h.process.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			hang()
			h.ends(71, `part="the control loop"`)
			h.goOn()
			h.env = append(h.env, "JOBD_STOP_TIMEOUT=1h")
			h.serve()
			hang()
			h.eventually("a second signal ends it", func() error {
				if err := h.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
					return err
				}
				select {
				case <-h.ended:
					return nil
				case <-time.After(time.Second):
					return errors.New("it goes on")
				}
			})
			h.goOn()
			h.serve()
		})
	}
}

// A start that hangs is ended by SIGTERM, and by the watchdog.
func TestAStartThatHangs(t *testing.T) {
	t.Parallel()
	h := startHanging(t, nil, "--runtime", "simulated")
	h.apply(sleeper("bad", 1, 1000, ""))
	h.kill()
	h.hangAt("block", "pass jobs jobs.batch/default/bad")
	h.launch()
	h.ends(70, "in jobs on jobs.batch/default/bad")
	h.serve()
	h.isSetAside("Job", "bad")
	h.kill()
	if err := os.Remove(filepath.Join(h.root, "set-aside.json")); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "JOBD_WATCHDOG_HUNG=1h")
	h.launch()
	time.Sleep(time.Second) // it hangs, or will
	if err := h.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.ends(71, `part="the start"`)
	h.goOn()
	h.serve()
}

// A process that was stopped for longer than a hang takes is none, even if it was at work.
func TestAStoppedProcessDoesNotHang(t *testing.T) {
	t.Parallel()
	h := startHanging(t, nil, "--runtime", "simulated")
	h.hangAt("block", "pass jobs jobs.batch/default/bad")
	h.inBackground(sleeper("bad", 1, 0, ""))
	h.says("/livez", "[-]control-loop failed")
	if err := h.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(15 * time.Second)
	if err := h.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.ended:
		t.Fatalf("it has ended:\n%s", h.output)
	case <-time.After(time.Second):
	}
	h.ends(70, "jobd hangs and ends itself") // after ten seconds of its own
	h.goOn()
	h.serve()
}

// A fault of jobd in what it does for one pod ends it once: the pod is left alone from then on.
func TestAPanicSetsAside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, point string }{
		{"a pass", "pass pods pods/default/bad"}, {"the work on a pod", "work default bad"},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := startHanging(t, nil)
			h.hangAt("panic", c.point)
			h.inBackground(`{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: ["true"]}]}}`)
			h.ends(70, "jobd has met a fault of its own")
			h.serve()
			if c.what == "the work on a pod" { // it is stored
				h.isSetAside("Pod", "bad")
			}
			h.apply(sleeper("good", 1, 0, ""))
			h.complete("good")
			h.goOn()
		})
	}
}
