package core

import (
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSignalsBeforeTheEndAreValidated(t *testing.T) {
	for value, want := range map[string]string{
		"USR1@120s": "", "SIGTERM@5m": "", "HUP@24h": "",
		"USR1":         "must be a signal and how long before the end",
		"@120s":        "the name of a signal",
		"NONE@120s":    "the name of a signal",
		"10@120s":      "the name of a signal",
		"KILL@120s":    "no process can prepare",
		"SIGSTOP@120s": "no process can prepare",
		"USR1@120":     "a duration of whole seconds",
		"USR1@":        "a duration of whole seconds",
		"USR1@1500ms":  "a duration of whole seconds",
		"USR1@0s":      "longer than 0",
		"USR1@-5s":     "longer than 0",
		"USR1@25h":     "at most 24h",
	} {
		errs := validateSignal(map[string]string{SignalAnnotation: value}, field.NewPath("metadata", "annotations"))
		switch {
		case want == "" && len(errs) > 0, want != "" && len(errs) != 1:
			t.Errorf("%s: %v", value, errs)
		case want != "" && (!strings.Contains(errs[0].Detail, want) || errs[0].Field != "metadata.annotations[jobd.dev/signal]"):
			t.Errorf("%s: %v, want %q", value, errs[0], want)
		}
	}
	s, err := SignalOf(map[string]string{SignalAnnotation: "USR1@2m"})
	if err != nil || s.Number != syscall.SIGUSR1 || s.Lead != 2*time.Minute || s.Name() != "SIGUSR1" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestOnlyWhatRunsPutsAnEvictionOff(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SignalAnnotation: "USR1@60s"}}}
	if d := SignalLead(p, now); d != 0 {
		t.Errorf("a pod of which nothing runs: %s", d)
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if d := SignalLead(p, now); d != time.Minute {
		t.Errorf("a pod that runs: %s", d)
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: Signaled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-45 * time.Second))}}
	if d := SignalLead(p, now); d != 15*time.Second {
		t.Errorf("a pod that has had its signal: %s", d)
	}
	if d := SignalLead(p, now.Add(time.Hour)); d != 0 {
		t.Errorf("a pod that had its signal long ago: %s", d)
	}
	delete(p.Annotations, SignalAnnotation)
	if d := SignalLead(p, now); d != 0 {
		t.Errorf("a pod without the annotation: %s", d)
	}
}
