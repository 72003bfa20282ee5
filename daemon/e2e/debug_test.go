package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const debugged = `
apiVersion: v1
kind: Pod
metadata: {name: patient}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "busybox:1.36", command: [sh, -c, "echo written >/note; until test -e /v/end; do sleep 0.1; done # the patient"], volumeMounts: [{name: v, mountPath: /v}]}
  volumes: [{name: v, emptyDir: {}}]
`

// debugger returns the status of an ephemeral container of the pod.
func (d *daemon) debugger(name string) (corev1.ContainerStatus, error) {
	pod, err := d.CoreV1().Pods("default").Get(d.t.Context(), "patient", metav1.GetOptions{})
	if err != nil {
		return corev1.ContainerStatus{}, err
	}
	for _, s := range pod.Status.EphemeralContainerStatuses {
		if s.Name == name {
			return s, nil
		}
	}
	return corev1.ContainerStatus{}, fmt.Errorf("no status of %s: %+v", name, pod.Status)
}

// TestDebug adds containers to a running pod: they see the processes of their target, are there after a kill -9 of the
// daemon, are never restarted, and end with the pod.
func TestDebug(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.apply(debugged)
		d.jobctl("wait", "--for=condition=Ready", "pod/patient", patiently)
		for name, program := range d.programs(t) {
			t.Run(name, func(t *testing.T) {
				id := "by-" + strings.ReplaceAll(strings.ToLower(name), " ", "-")
				shell := talk(t, onTerminal(t, program("debug", "-it", "-q", "patient", "--image=busybox:1.36", "--target=main", "-c", id, "--", "sh")))
				shell.says("tr '\\0' ' ' </proc/1/cmdline; echo; cat /proc/1/root/note; echo $((6*7))\n")
				shell.hears("# the patient")
				shell.hears("written\r\n")
				shell.hears("42\r\n")
				shell.says("exit 3\n")
				shell.ends() // kubectl does not say how
				d.eventually("it has ended", func() error {
					s, err := d.debugger(id)
					if err == nil && (s.State.Terminated == nil || s.State.Terminated.ExitCode != 3 || s.RestartCount > 0) {
						err = fmt.Errorf("%+v", s)
					}
					return err
				})
			})
		}
		d.jobctl("debug", "patient", "-q", "--image=busybox:1.36", "--target=main", "-c", "stays", "--profile=general", "--",
			"sh", "-c", "echo in $(readlink /proc/self/ns/pid) $(readlink /proc/self/ns/ipc) $(readlink /proc/self/ns/net); sleep 100000")
		d.jobctl("debug", "patient", "-q", "--image=busybox:1.36", "-c", "apart", "--", "sh", "-c", "ls -d /proc/[0-9]* | wc -l; sleep 100000")
		d.eventually("it runs", func() error {
			s, err := d.debugger("stays")
			if err == nil && s.State.Running == nil {
				err = fmt.Errorf("%+v", s)
			}
			return err
		})
		const namespaces = "echo in $(readlink /proc/1/ns/pid) $(readlink /proc/1/ns/ipc) $(readlink /proc/1/ns/net)"
		own := d.jobctl("exec", "patient", "-c", "main", "--", "sh", "-c", namespaces)
		d.eventually("its namespaces are those of the target", func() error {
			if got, err := d.try("jobctl", nil, "logs", "patient", "-c", "stays"); err != nil || got != own {
				return fmt.Errorf("%w: %q, the target has %q", err, got, own)
			}
			return nil
		})
		d.eventually("without a target it has its own processes", func() error {
			got, err := d.try("jobctl", nil, "logs", "patient", "-c", "apart")
			if err != nil || strings.Count(got, "\n") != 1 || len(strings.TrimSpace(got)) != 1 {
				return fmt.Errorf("%w: %q", err, got)
			}
			return nil
		})

		d.kill()
		d.serve()
		if got := d.jobctl("exec", "patient", "-c", "stays", "--", "cat", "/proc/1/root/note"); got != "written\n" {
			t.Errorf("after kill -9: %q", got)
		}
		s, err := d.debugger("stays")
		if err != nil || s.State.Running == nil || s.RestartCount > 0 || s.Ready {
			t.Errorf("after kill -9: %+v, %v", s, err)
		}
		events := d.jobctl("events", "--for", "pod/patient", "-o", "json")
		if !strings.Contains(events, `"fieldPath": "spec.ephemeralContainers{stays}"`) {
			t.Errorf("events: %s", events)
		}
		if out, err := d.try("jobctl", nil, "debug", "patient", "-q", "--image=busybox:1.36", "-c", "stays"); err == nil {
			t.Errorf("a second one of that name: %s", out)
		}
		out, err := d.try("jobctl", nil, "patch", "pod", "patient", "--subresource=ephemeralcontainers", "-p",
			`{"spec":{"ephemeralContainers":[{"name":"bad","image":"busybox:1.36","ports":[{"containerPort":80}],"targetContainerName":"nosuch"}]}}`)
		if err == nil || !strings.Contains(out, "ports: Forbidden: cannot be set for an Ephemeral Container") ||
			!strings.Contains(out, `targetContainerName: Not found: "nosuch"`) {
			t.Errorf("a port: %v, %s", err, out)
		}
		d.jobctl("exec", "patient", "-c", "main", "--", "touch", "/v/end")
		d.jobctl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/patient", patiently)
		if s, err := d.debugger("apart"); err != nil || s.State.Terminated == nil {
			t.Errorf("at the end of the pod: %+v, %v", s, err)
		}
		d.jobctl("delete", "pod", "patient")
		d.eventually("nothing is left", func() error {
			left, _ := filepath.Glob(filepath.Join(d.state, "processes", "*"))
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err == nil && (len(left) > 0 || strings.Contains(string(mounts), filepath.Join(d.state, "processes"))) {
				err = fmt.Errorf("%v, %s", left, mounts)
			}
			return err
		})
	}, "--listen", freePort(t))
}
