package pod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/jobd/jobd/daemon/duty"
)

func equal(a, b *corev1.Pod) bool { return equality.Semantic.DeepEqual(a.Status, b.Status) }

func seconds64(n int64) *int64 { return &n }

// What a reader would want to see of a pod's life is among the cases (cases_test.go); this is the rest.
func TestPodLife(t *testing.T) {
	never, onFailure, always := corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways
	for rule, test := range map[string]func(t *testing.T){
		"a signal is an exit code, as a kubelet shows it": func(t *testing.T) {
			l := newLife(t, newPod(corev1.RestartPolicyNever, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			killed := l.exited("c", 0, 137)
			killed.Status.Signal = 9
			l.turn(killed)
			if end := find(l.pod, "c").status.State.Terminated; end == nil || end.ExitCode != 137 || end.Signal != 0 {
				t.Errorf("%+v", end)
			}
		},
		"restarts wait 10 s, 20 s, ... up to 5 minutes": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			for n, delay := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300, 300} {
				l.turn(l.started("c", n))
				l.wait(2 * time.Second)
				got := l.turn(l.exited("c", n, 1))
				if n == 0 {
					l.want(got, "Launch c/1")
					continue
				}
				l.want(got)
				l.wakeIn(delay * time.Second)
				l.wait(delay*time.Second - 1)
				l.want(l.turn())
				l.wait(1)
				l.want(l.turn(), "Launch c/"+string(rune('0'+n+1)))
				l.state("c", "CrashLoopBackOff/"+string(rune('0'+n)))
			}
			l.saw(8, "BackOff", "Back-off restarting failed container c in pod p_ns(u)")
		},
		"ten minutes of running reset the back-off": func(t *testing.T) {
			l := newLife(t, newPod(always, "c"))
			l.turn()
			for n := range 4 {
				l.turn(l.started("c", n))
				l.turn(l.exited("c", n, 1))
				l.now = maxTime(l.now, l.wake)
				l.turn()
			}
			l.turn(l.started("c", 4))
			l.wait(10 * time.Minute)
			l.want(l.turn(l.exited("c", 4, 0)), "Launch c/5")
			l.turn(l.started("c", 5))
			l.want(l.turn(l.exited("c", 5, 0)))
			l.wakeIn(10 * time.Second)
			l.wait(10 * time.Second)
			l.want(l.turn(), "Launch c/6")
			l.turn(l.started("c", 6))
			l.turn(l.exited("c", 6, 0))
			l.wakeIn(20 * time.Second)
		},
		"observations of older attempts, of other pods and of unknown containers change nothing": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			l.turn(l.exited("c", 0, 1))
			l.turn(l.started("c", 1))
			before := l.pod.DeepCopy()
			other := l.exited("c", 1, 1)
			other.UID = "other"
			l.want(l.turn(l.exited("c", 0, 9), l.started("c", 0), l.failed("c", 0, duty.ErrImagePull, ""), l.failed("c", 1, duty.ErrImagePull, ""),
				l.started("c", 1), duty.Observation{What: duty.Lost, Container: "c"}, other,
				duty.Observation{What: duty.Exited, Container: "nobody"}, duty.Observation{What: duty.TornDown}))
			if !equal(before, l.pod) {
				t.Errorf("before %+v\nafter %+v", before.Status, l.pod.Status)
			}
		},
		"termination messages are cut": func(t *testing.T) {
			l := newLife(t, newPod(never, "a", "b", "c", "d"))
			l.turn()
			end := l.exited("a", 0, 0)
			end.Status.Message = strings.Repeat("x", 5000)
			l.turn(end)
			if n := len(find(l.pod, "a").status.State.Terminated.Message); n != 3072 {
				t.Errorf("message has %d bytes", n)
			}
		},
	} {
		t.Run(rule, test)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
