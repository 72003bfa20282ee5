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

// TestProgramThatMayNotBeExecuted: crun does not name the file, and calls it an executable all the same; runc says permission denied.
func TestProgramThatMayNotBeExecuted(t *testing.T) {
	crun := "open executable: Permission denied"
	for name, c := range map[string]struct {
		message       string
		command, args []string
		mount         string
		want          string
	}{
		"a script of a ConfigMap": {
			message: crun, command: []string{"/s/run.sh"}, mount: "/s",
			want: "Its volume scripts makes files that can be read only, unless it has defaultMode: 0755",
		},
		"the same, with runc": {
			message: `exec: "/s/run.sh": permission denied`, command: []string{"/s/run.sh"}, mount: "/s/", want: "/s/run.sh is there, but the user",
		},
		"one file of it, by subPath": {message: crun, command: []string{"/run.sh"}, mount: "/run.sh", want: "defaultMode: 0755"},
		"a script of the image":      {message: crun, command: []string{"/run.sh"}, mount: "/s", want: "or let what interprets it read it: [sh, /run.sh]"},
		"arguments alone":            {message: crun, args: []string{"/run.sh"}, want: "/run.sh is there"},
		"the entrypoint":             {message: crun, want: "The file that the image starts may not be executed"},
	} {
		p := failedPod(128, "StartError")
		p.Spec.Containers[0].Command, p.Spec.Containers[0].Args = c.command, c.args
		if c.mount != "" {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scripts", MountPath: c.mount}}
			p.Spec.Volumes = []corev1.Volume{{Name: "scripts", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
		}
		end := p.Status.ContainerStatuses[0].State.Terminated
		end.Message = c.message
		said := (&Pod{Pod: p}).Cause("c", end)
		if said.Type != "StartError" || !strings.Contains(said.Message, c.want) || strings.Contains(said.Message, "is empty") ||
			!strings.HasSuffix(said.Brief, " may not be executed") {
			t.Errorf("%s: %s: %s: %s", name, said.Type, said.Brief, said.Message)
		}
	}
}

// TestCommandMeantForAShell: a line of a shell as one word, or its operators as arguments, are no command of a container.
func TestCommandMeantForAShell(t *testing.T) {
	for _, c := range []struct {
		message       string
		code          int32
		command, args []string
		want          string
	}{
		{message: "executable file `echo hi` not found in $PATH: No such file", code: 128, want: "as in [echo, hi], and a shell takes a whole line"},
		{message: `exec: "ls -l /": executable file not found in $PATH`, code: 128, want: "as in [ls, -l, /]"},
		{message: "executable file `echo` not found in $PATH: No such file or directory", code: 128},
		{code: 1, command: []string{"date", "&", "sleep", "1"}, want: `"&" is an argument like any other`},
		{code: 2, command: []string{"ls"}, args: []string{"/a", "|", "wc"}, want: "command: [sh, -c, 'ls /a | wc']"},
		{code: 1, command: []string{"sh", "-c", "ls | wc", "|"}},
		{code: 1, command: []string{"/usr/bin/env", "bash", "x", "&&"}},
		{code: 1, command: []string{"find", "/", "-exec", "rm", "{}", ";"}},
		{code: 1, command: []string{"grep", "a|b"}},
		{code: 0, command: []string{"echo", "a", "|", "b"}},
	} {
		p := failedPod(c.code, "Error")
		end := p.Status.ContainerStatuses[0].State.Terminated
		if c.message != "" {
			end.Reason, end.Message = "StartError", c.message
		}
		p.Spec.Containers[0].Command, p.Spec.Containers[0].Args = c.command, c.args
		said := (&Pod{Pod: p}).Cause("c", end).Message
		if c.want == "" && strings.Contains(said, "shell") || !strings.Contains(said, c.want) {
			t.Errorf("%q %q %q: %s", c.message, c.command, c.args, said)
		}
	}
}
