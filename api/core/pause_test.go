package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClientsDoNotSayForHowLongAPodWasPaused(t *testing.T) {
	with := func(d string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{PausedForAnnotation: d}}}
	}
	created := with("1000h")
	PreparePod(created, time.Unix(0, 0))
	if d := PausedFor(created); d != 0 {
		t.Errorf("a new pod was paused for %s", d)
	}
	for name, prepare := range map[string]func(pod, old *corev1.Pod){"an update": preparePodUpdate, "an update of the status": preparePodStatusUpdate} {
		for _, old := range []*corev1.Pod{with("5m0s"), {}} {
			changed := with("1000h")
			if prepare(changed, old); PausedFor(changed) != PausedFor(old) {
				t.Errorf("%s changes it from %s to %s", name, PausedFor(old), PausedFor(changed))
			}
		}
	}
}
