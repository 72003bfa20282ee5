package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const sidecarJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: sidecar}
spec:
  template:
    spec:
      restartPolicy: Never
      initContainers:
      - name: first
        image: busybox:1.36
        restartPolicy: Always
        command: [sh, -c, "trap 'sleep 0.5; echo first; exit 0' TERM; sleep 0.5; touch /d/first; while :; do sleep 0.05; done"]
        startupProbe: {exec: {command: [test, -f, /d/first]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 60}
        volumeMounts: [{name: d, mountPath: /d}]
      - name: second
        image: busybox:1.36
        restartPolicy: Always
        command: [sh, -c, "trap 'rm /d/first && echo second; exit 0' TERM; test -f /d/first || exit 1; touch /d/second; while :; do sleep 0.05; done"]
        volumeMounts: [{name: d, mountPath: /d}]
      containers:
      - name: main
        image: busybox:1.36
        command: [sh, -c, "until test -f /d/second; do sleep 0.05; done; test -f /d/first"]
        volumeMounts: [{name: d, mountPath: /d}]
      volumes: [{name: d, emptyDir: {}}]
`

const probedJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: probed}
spec:
  template:
    spec:
      restartPolicy: OnFailure
      terminationGracePeriodSeconds: 60
      containers:
      - name: main
        image: busybox:1.36
        command: [sh, -c, "trap 'exit 1' TERM; mkdir -p /www; echo ok > /www/index.html; touch /tmp/live; httpd -p 8080 -h /www; while :; do sleep 0.05; done"]
        ports: [{name: web, containerPort: 8080}]
        startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 60}
        readinessProbe: {httpGet: {path: /index.html, port: web}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1}
        livenessProbe: {exec: {command: [test, -f, /tmp/live]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1}
        lifecycle:
          # The first process cannot be opened while it is still the OCI runtime's.
          postStart: {exec: {command: [sh, -c, "until echo post > /proc/1/fd/1; do sleep 0.05; done"]}}
          preStop: {exec: {command: [sh, -c, "echo pre > /proc/1/fd/1"]}}
`

// TestLifecycle runs sidecars, probes and hooks.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"crun", "runc"} {
		t.Run(runtime, func(t *testing.T) {
			if _, err := exec.LookPath(runtime); err != nil {
				t.Skip("needs " + runtime)
			}
			d := start(t, "--oci-runtime", runtime)
			d.apply(sidecarJob)
			d.apply(probedJob)

			pod := d.running("probed", 1)[0].Name
			main := func(what string, is func(corev1.ContainerStatus) bool) {
				t.Helper()
				d.eventually(what, func() error {
					p, err := d.CoreV1().Pods("default").Get(t.Context(), pod, metav1.GetOptions{})
					if err != nil {
						return err
					}
					if s := p.Status.ContainerStatuses[0]; !is(s) {
						return fmt.Errorf("%+v", s)
					}
					return nil
				})
			}
			main("it becomes ready", func(s corev1.ContainerStatus) bool { return s.Ready && *s.Started })
			d.jobctl("exec", pod, "--", "rm", "/www/index.html")
			main("it becomes unready", func(s corev1.ContainerStatus) bool { return !s.Ready && *s.Started && s.RestartCount == 0 })
			d.kill()
			d.serve() // probes go on
			d.jobctl("exec", pod, "--", "rm", "/tmp/live")
			main("it is started again", func(s corev1.ContainerStatus) bool {
				last := s.LastTerminationState.Terminated
				return s.RestartCount == 1 && s.Ready && last != nil && last.ExitCode == 1
			})
			if log := d.jobctl("logs", pod); log != "post\n" {
				t.Errorf("the second attempt's log is %q", log)
			}
			events := d.jobctl("events", "--for=pod/"+pod)
			for _, want := range []string{
				"Readiness probe failed: HTTP probe failed with statuscode: 404", "Liveness probe failed",
				"failed liveness probe, will be restarted",
			} {
				if !strings.Contains(events, want) {
					t.Errorf("no event says %q:\n%s", want, events)
				}
			}

			d.complete("sidecar")
			p := d.pods("sidecar")[0]
			for i, want := range []string{"first\n", "second\n"} {
				name := p.Spec.InitContainers[i].Name
				if got := d.jobctl("logs", p.Name, "-c", name); got != want {
					t.Errorf("sidecar %s said %q", name, got)
				}
				if s := p.Status.InitContainerStatuses[i]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 || s.RestartCount != 0 {
					t.Errorf("sidecar %s ended as %+v", name, s)
				}
			}
		})
	}
}

// It ends only by SIGKILL.
const stubbornPod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: GRACE
  containers:
  - name: main
    image: busybox:1.36
    command: [sh, -c, "trap 'echo signalled' TERM; while :; do sleep 0.05; done"]
    lifecycle: {preStop: HOOK}
`

// TestPreStopHooks ends pods that ignore their signal while a hook runs, or after it.
func TestPreStopHooks(t *testing.T) {
	t.Parallel()
	d := start(t)
	run := func(name, grace, hook string) {
		d.apply(strings.NewReplacer("NAME", name, "GRACE", grace, "HOOK", hook).Replace(stubbornPod))
		d.jobctl("wait", "--for=condition=Ready", "pod/"+name)
	}
	// Their grace periods would outlast the test.
	run("short", "3600", "{exec: {command: [sh, -c, 'until echo hook > /proc/1/fd/1; do sleep 0.05; done; sleep 3600']}}")
	log := make(chan string)
	go func() {
		out, _ := d.try("jobctl", nil, "logs", "-f", "short")
		log <- out
	}()
	run("forced", "3600", "{sleep: {seconds: 3600}}")
	run("over", "2", "{exec: {command: ['true']}}")
	run("fails", "3600", "{exec: {command: ['false']}}")
	for _, name := range []string{"short", "forced", "over", "fails"} {
		d.jobctl("delete", "--wait=false", "pod/"+name)
	}
	d.eventually("the hook has begun", func() error {
		if log := d.jobctl("logs", "short"); log != "hook\n" {
			return fmt.Errorf("the log is %q", log)
		}
		return nil
	})
	d.jobctl("delete", "--grace-period=1", "pod/short")
	d.jobctl("delete", "--grace-period=0", "--force", "pod/forced")
	if out := <-log; out != "hook\nsignalled\n" {
		t.Errorf("a hook that is cut short: %q", out)
	}
	d.jobctl("wait", "--for=delete", "pod/over", patiently)
	d.eventually("the hook that fails is reported", func() error {
		if events := d.jobctl("events", "--for=pod/fails"); !strings.Contains(events, "FailedPreStopHook") || !strings.Contains(events, "PreStopHook failed") {
			return errors.New(events)
		}
		return nil
	})
	d.jobctl("delete", "--grace-period=0", "--force", "pod/fails")
}
