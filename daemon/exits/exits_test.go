package exits

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(1_700_000_000, 0)

// failedPod is a pod whose only container, c, has ended so.
func failedPod(code int32, reason string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "j-x", Namespace: "n", UID: "p"}}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	p.Status.Phase = corev1.PodFailed
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(now)},
	}}}
	return p
}

// TestWhyAContainerWasStopped: an exit code of 137 or 143, or any other, may be that of a container which a failed check has ended.
func TestWhyAContainerWasStopped(t *testing.T) {
	began := now.Add(-time.Minute)
	event := func(container, reason, message string, at time.Time) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{UID: "p", FieldPath: "spec.containers{" + container + "}"},
			Reason:         reason, Message: message, LastTimestamp: metav1.NewTime(at),
		}
	}
	killed := func(message string) corev1.Event { return event("c", "Killing", message, now) }
	for name, c := range map[string]struct {
		events []corev1.Event
		code   int32
		kind   string
		words  string
	}{
		"by its postStart hook": {
			[]corev1.Event{
				event("c", "FailedPostStartHook", "PostStartHook failed: exec in container u.c.0: start container u.c.0: no-such-program: not found", now),
				killed("FailedPostStartHook"),
			},
			137, "FailedCheck", "since it was stopped: its postStart hook failed: no-such-program: not found.",
		},
		"by its postStart hook, in a cluster": {
			[]corev1.Event{event("c", "FailedPostStartHook", "PostStartHook failed", now), killed("FailedPostStartHook")},
			143, "FailedCheck", "its postStart hook failed.",
		},
		"by its liveness probe": {
			[]corev1.Event{event("c", "Unhealthy", "Liveness probe failed: HTTP 500", now), killed("Container c failed liveness probe, will be restarted")},
			3, "FailedCheck", "exit code 3, since it was stopped: its liveness probe failed: HTTP 500.",
		},
		"by its startup probe": {
			[]corev1.Event{event("c", "Unhealthy", "Startup probe failed: no", now), killed("Container c failed startup probe, will be restarted")},
			137, "FailedCheck", "its startup probe failed: no.",
		},
		"by a probe that is not the last event": {
			[]corev1.Event{killed("Container c failed liveness probe, will be restarted"), event("c", "Unhealthy", "Readiness probe failed: no", now)},
			137, "FailedCheck", "its liveness probe failed.",
		},
		"the probe of another container": {
			[]corev1.Event{event("d", "Killing", "Container d failed liveness probe, will be restarted", now)}, 137, "ExitCode", "by somebody else",
		},
		"a probe of the attempt before": {
			[]corev1.Event{
				event("c", "Killing", "Container c failed liveness probe, will be restarted", began.Add(-time.Minute)),
			}, 137, "ExitCode", "by somebody else",
		},
		"a probe that failed, without a stop": {
			[]corev1.Event{event("c", "Unhealthy", "Liveness probe failed: HTTP 500", now)}, 1, "ExitCode", "the program's own way",
		},
		"nobody has stopped it": {[]corev1.Event{killed("Stopping container c")}, 137, "ExitCode", "by somebody else"},
	} {
		p := failedPod(c.code, "Error")
		v := &Pod{Pod: p, Events: c.events}
		end := p.Status.ContainerStatuses[0].State.Terminated
		end.StartedAt = metav1.NewTime(began)
		if said := v.Cause("c", end); said.Type != c.kind || !strings.Contains(said.Message, c.words) {
			t.Errorf("%s: %s: %s", name, said.Type, said.Message)
		}
	}
}

// TestTooLittleMemoryToStart: crun and runc say only that the limit could be too low.
func TestTooLittleMemoryToStart(t *testing.T) {
	crun, runc := "OOM: the memory limit could be too low: read from sync socket", "container init was OOM-killed (memory limit too low?)"
	for _, c := range []struct{ limit, message, want string }{
		{"128m", crun, "Its limit of memory is 128m, which is 0.128 bytes: m stands for thousandths, Mi or M for millions."},
		{"128m", runc, "which is 0.128 bytes"},
		{"100", crun, "resources.limits.memory, is 100."},
		{"4Ki", runc, "resources.limits.memory, is 4Ki."},
		{"128m", "executable file not found", ""},
		{"", crun, ""},
	} {
		p := failedPod(128, "StartError")
		p.Spec.Containers[0].Resources.Limits = nil
		if c.limit != "" {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(c.limit)}
		}
		end := p.Status.ContainerStatuses[0].State.Terminated
		end.Message = c.message
		said := (&Pod{Pod: p}).Cause("c", end).Message
		if c.want == "" && strings.Contains(said, "limit of memory") || !strings.Contains(said, c.want) {
			t.Errorf("%q with %s: %s", c.limit, c.message, said)
		}
	}
}

// A name that begins with a dot is a path to older versions of crun (containers/crun#1664).
func TestProgramThatBeginsWithADot(t *testing.T) {
	for command, want := range map[string]bool{"...test": true, ".hidden": true, "./test": false, "../test": false, "test": false, "": false} {
		p := failedPod(128, "StartError")
		if command != "" {
			p.Spec.Containers[0].Command = []string{command}
		}
		end := p.Status.ContainerStatuses[0].State.Terminated
		end.Message = "executable file `" + command + "` not found in $PATH: No such file or directory"
		if said := (&Pod{Pod: p}).Cause("c", end).Message; strings.Contains(said, "begins with a dot") != want {
			t.Errorf("%q: %s", command, said)
		}
	}
}

// TestProgramWithoutAName: crun and runc say that a program has none in words that do not help.
func TestProgramWithoutAName(t *testing.T) {
	for _, message := range []string{"open executable: Operation not permitted", `exec: "": executable file not found in $PATH`} {
		p := failedPod(128, "StartError")
		end := p.Status.ContainerStatuses[0].State.Terminated
		end.Message = message
		if c := (&Pod{Pod: p}).Cause("c", end); c.Type != "StartError" || !strings.Contains(c.Message, "The name of its program is empty") {
			t.Errorf("%s: %+v", message, c)
		}
	}
}
