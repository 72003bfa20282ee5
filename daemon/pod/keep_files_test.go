package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/duty"
)

func TestFilesAreKeptForAWhile(t *testing.T) {
	end := time.Unix(1_700_000_000, 0)
	inMemory := []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
	for name, tc := range map[string]struct {
		annotation string
		change     func(*corev1.Pod)
		after      time.Duration
		drop       bool
		kept       bool
	}{
		"not unless it is asked for": {"", nil, 0, false, false},
		"until the time is over":     {"1h", nil, 59 * time.Minute, false, true},
		"and not any longer":         {"1h", nil, time.Hour, false, false},
		"not in a deleted pod":       {"1h", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: end} }, 0, false, false},
		"not in an evicted pod":      {"1h", func(p *corev1.Pod) { p.Status.Reason = "Evicted" }, 0, false, false},
		"not in memory":              {"1h", func(p *corev1.Pod) { p.Spec.Volumes = inMemory }, 0, false, false},
		"not if they were dropped":   {"1h", nil, 0, true, false},
		"not for what is no time":    {"yes", nil, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{}
			p.Spec.NodeName, p.Spec.Containers = "node", []corev1.Container{{Name: "c"}}
			if tc.annotation != "" {
				p.Annotations = map[string]string{core.KeepFilesAnnotation: tc.annotation}
			}
			p.Status.Phase = corev1.PodSucceeded
			p.Status.StartTime = &metav1.Time{Time: end.Add(-time.Minute)}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(end)}},
			}}
			if tc.change != nil {
				tc.change(p)
			}
			issued := &Issued{}
			if tc.drop {
				issued.DropFiles()
			}
			actions, wake := Next(p, issued, end.Add(tc.after))
			if kept := len(actions) == 0; kept != tc.kept || kept && !wake.Equal(end.Add(time.Hour)) {
				t.Errorf("%v, %s", actions, wake)
			}
		})
	}
}

// The time counts from the end of the container that ended last, and none is kept of a pod of which nothing has run.
func TestFilesAreKeptFromTheLastEnd(t *testing.T) {
	l := newLife(t, newPod(corev1.RestartPolicyNever, "a", "b", "c"))
	l.pod.Annotations = map[string]string{core.KeepFilesAnnotation: "1h"}
	l.turn()
	l.turn(l.started("a", 0), l.started("b", 0), l.started("c", 0))
	for _, name := range []string{"a", "c", "b"} {
		l.wait(time.Minute)
		l.want(l.turn(l.exited(name, 0, 0)))
	}
	if end := FilesEnd(l.pod); !end.Equal(l.now) {
		t.Errorf("it ended at %s, at %s", end, l.now)
	}
	l.wakeIn(time.Hour)
	l.want(l.turn(duty.Observation{What: duty.FilesDropped}), "TearDown")

	l = newLife(t, newPod(corev1.RestartPolicyNever, "init:i", "c"))
	l.pod.Annotations = map[string]string{core.KeepFilesAnnotation: "1h"}
	l.turn()
	l.pod.Spec.ActiveDeadlineSeconds = seconds64(60)
	l.turn()
	l.wait(time.Minute)
	l.want(l.turn(), "SIGKILL i/0")
	l.want(l.turn(duty.Observation{What: duty.Dropped, Container: "i"}), "TearDown")
}

// Files that are more than a pod may keep go, and their owner is told; but not because of what was seen of a pod that keeps none.
func TestFilesThatAreTooMuchAreNotKept(t *testing.T) {
	end := time.Unix(1_700_000_000, 0)
	for annotation, want := range map[string]int{"1h": 1, "": 0} {
		p := &corev1.Pod{}
		p.UID, p.Spec.NodeName, p.Spec.Containers = "u", "node", []corev1.Container{{Name: "c"}}
		if annotation != "" {
			p.Annotations = map[string]string{core.KeepFilesAnnotation: annotation}
		}
		p.Status.Phase = corev1.PodSucceeded
		p.Status.StartTime = &metav1.Time{Time: end.Add(-time.Minute)}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(end)}},
		}}
		issued := &Issued{}
		result := Apply(p, issued, []duty.Observation{{What: duty.Evicted, UID: "u", Message: "too much"}}, end)
		if len(result.Events) != want || want == 1 && (result.Events[0].Reason != "FilesNotKept" || result.Events[0].Message != "too much") {
			t.Errorf("%q: events %v", annotation, result.Events)
		}
		if actions, _ := Next(p, issued, end); len(actions) != 1 || actions[0].Kind != duty.TearDown {
			t.Errorf("%q: %v", annotation, actions)
		}
		if p.Status.Phase != corev1.PodSucceeded || p.Status.Reason != "" {
			t.Errorf("%q: the status is %v", annotation, p.Status)
		}
	}
}
