package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runtimeThatHangs creates an OCI runtime that hangs, with a process below it in a session of its own, when it is to do
// one thing for a container named hang. It returns its path, and a word that the command lines of its processes
// contain.
func runtimeThatHangs(t *testing.T, real, doing string) (path, mark string) {
	t.Helper()
	mark = "9" + fmt.Sprint(time.Now().UnixNano())[5:] // how many seconds they sleep
	path = filepath.Join(t.TempDir(), "hangs")
	script := fmt.Sprintf(`#!/bin/sh
for last; do :; done
case "$*,$last" in
*" %s "*,*.hang.*) setsid sh -c 'sleep %s; :' & sleep %s ;;
esac
exec %s "$@"
`, doing, mark, mark, real)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, mark
}

// processesWith counts the processes whose command lines contain a word.
func processesWith(word string) int {
	n := 0
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if line, _ := os.ReadFile(path); strings.Contains(string(line), word) {
			n++
		}
	}
	return n
}

// eachHanging runs a test with daemons whose OCI runtime hangs when it is to do one thing.
func eachHanging(t *testing.T, doing string, test func(t *testing.T, d *daemon, mark string), flags ...string) {
	for _, runtime := range []string{"crun", "runc"} {
		t.Run(runtime, func(t *testing.T) {
			real, err := exec.LookPath(runtime)
			if err != nil {
				t.Skip("needs " + runtime)
			}
			path, mark := runtimeThatHangs(t, real, doing)
			test(t, start(t, append([]string{"--oci-runtime", path}, flags...)...), mark)
		})
	}
}

func hangingPod(name, more string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{name: hang, image: "busybox:1.36", command: [sleep, "1000"]%s}]
`, name, more)
}

func (d *daemon) noProcess(mark, why string) {
	d.t.Helper()
	d.eventually("no process is left "+why, func() error {
		if n := processesWith(mark); n > 0 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// TestStartsThatHang has more pods hang in the OCI runtime than are worked on at a time. Other pods go on.
func TestStartsThatHang(t *testing.T) {
	t.Parallel()
	eachHanging(t, "run", func(t *testing.T, d *daemon, mark string) {
		const n = 40
		var all strings.Builder
		for i := range n {
			all.WriteString(hangingPod(fmt.Sprintf("hang-%d", i), ""))
		}
		d.apply(all.String())
		d.eventually("all hang in the OCI runtime", func() error {
			if got := processesWith("sleep\x00" + mark); got != 2*n {
				return fmt.Errorf("%d of %d processes are there", got, 2*n)
			}
			return nil
		})
		d.apply(sleeper("other", 1, 0, ""))
		d.complete("other")

		for i := range n {
			options := metav1.DeleteOptions{}
			if i%2 == 0 {
				options.GracePeriodSeconds = new(int64)
			}
			if err := d.CoreV1().Pods("default").Delete(t.Context(), fmt.Sprintf("hang-%d", i), options); err != nil {
				t.Fatal(err)
			}
		}
		d.noProcess(mark, "of those that were deleted")
		for i := range n {
			d.eventually("the pod is gone", func() error {
				_, err := d.CoreV1().Pods("default").Get(t.Context(), fmt.Sprintf("hang-%d", i), metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("it is there: %v", err)
			})
		}
		d.eventually("the containers are gone", func() error {
			left, err := filepath.Glob(filepath.Join(d.state, "shards/*/containers/*"))
			if err == nil && len(left) > 0 {
				err = errors.New(strings.Join(left, " "))
			}
			return err
		})
	}, "--runtime-request-timeout", "1h") // however late the last one is
}

// TestRuntimeRequestTimeout lets the OCI runtime take longer than it may.
func TestRuntimeRequestTimeout(t *testing.T) {
	t.Parallel()
	eachHanging(t, "run", func(t *testing.T, d *daemon, mark string) {
		d.apply(hangingPod("late", ""))
		p := d.podUntil("late", "has failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		end := p.Status.ContainerStatuses[0].State.Terminated
		if end == nil || end.Reason != "StartError" || !strings.Contains(end.Message, "has not come to an end within 3s") {
			t.Errorf("it ended as %+v", end)
		}
		d.noProcess(mark, "after the time was over")
	}, "--runtime-request-timeout", "3s")
}

// TestExecThatHangs has the OCI runtime hang at a probe and at a client's command: neither leaves anything behind.
func TestExecThatHangs(t *testing.T) {
	t.Parallel()
	eachHanging(t, "exec", func(t *testing.T, d *daemon, mark string) {
		d.apply(hangingPod("probed", `, readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 1}`))
		d.eventually("the probe times out again and again", func() error {
			events, err := d.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Unhealthy"})
			if err != nil {
				return err
			}
			n := 0
			for _, e := range events.Items {
				n += int(max(e.Count, 1))
			}
			if n < 5 {
				return fmt.Errorf("%d times", n)
			}
			return nil
		})
		d.eventually("there are no more processes of the OCI runtime than those of the last probe and the one before", func() error {
			if n := processesWith("sleep\x00" + mark); n > 4 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
		if err := d.CoreV1().Pods("default").Delete(t.Context(), "probed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		d.noProcess(mark, "of the probes")

		d.apply(hangingPod("called", ""))
		d.podUntil("called", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		client := exec.CommandContext(t.Context(), filepath.Join(bin, "jobctl"), "exec", "called", "--", "true")
		client.Env = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "HOME="+t.TempDir())
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		d.eventually("the command hangs", func() error {
			if processesWith(mark) == 0 {
				return errors.New("it does not")
			}
			return nil
		})
		_ = client.Process.Kill()
		_ = client.Wait()
		d.noProcess(mark, "of a client that is gone")
	}, "--runtime-request-timeout", "5s")
}
