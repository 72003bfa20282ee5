package pod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

// hooked returns a pod whose container "hook" has a preStop hook.
func hooked(names ...string) *corev1.Pod {
	p := newPod(corev1.RestartPolicyNever, names...)
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == "hook" {
				list[i].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 100}}}
			}
		}
	}
	return p
}

func (l *life) hookDone(name string) duty.Observation {
	return duty.Observation{What: duty.Checked, Container: name, Check: duty.PreStop, OK: true}
}

func TestGracePeriods(t *testing.T) {
	for name, test := range map[string]func(l *life){
		"a hook that takes all of the time leaves the container two seconds": func(l *life) {
			l.delete(10 * time.Second)
			l.want(l.turn(), "SIGTERM hook/0", "SIGTERM plain/0")
			l.wakeIn(10 * time.Second)
			l.wait(10 * time.Second)
			l.want(l.turn(), "SIGKILL plain/0")
			l.want(l.turn(l.hookDone("hook")))
			l.wakeIn(minimumGrace)
			l.wait(minimumGrace)
			l.want(l.turn(), "SIGKILL hook/0")
		},
		"the time of a hook counts": func(l *life) {
			l.delete(10 * time.Second)
			l.turn()
			l.wait(3 * time.Second)
			l.want(l.turn(l.hookDone("hook")))
			l.wait(7 * time.Second)
			l.want(l.turn(), "SIGKILL hook/0", "SIGKILL plain/0")
		},
		"a hook that ends late leaves two seconds": func(l *life) {
			l.delete(10 * time.Second)
			l.turn()
			l.wait(9 * time.Second)
			l.want(l.turn(l.hookDone("hook")))
			l.wait(time.Second)
			l.want(l.turn(), "SIGKILL plain/0")
			l.wakeIn(time.Second)
			l.wait(time.Second)
			l.want(l.turn(), "SIGKILL hook/0")
		},
		"no time is no hook": func(l *life) {
			l.delete(0)
			l.want(l.turn(), "SIGKILL hook/0", "SIGKILL plain/0")
		},
		"a shorter time counts from when it is asked for, and ends the hook": func(l *life) {
			l.delete(100 * time.Second)
			began := l.now
			l.turn()
			l.wait(30 * time.Second)
			// As the API does: from the first request.
			at, second := *l.pod.DeletionTimestamp, int64(5)
			at.Time = began.Add(5 * time.Second)
			l.pod.DeletionTimestamp, l.pod.DeletionGracePeriodSeconds = &at, &second
			l.want(l.turn(), "SIGTERM hook/0", "SIGTERM plain/0")
			l.want(l.turn(l.hookDone("hook")))
			l.wait(5*time.Second - 1)
			l.want(l.turn())
			l.wait(1)
			l.want(l.turn(), "SIGKILL hook/0", "SIGKILL plain/0")
		},
		"one second, asked for later, is two": func(l *life) {
			l.delete(100 * time.Second)
			l.turn()
			l.wait(30 * time.Second)
			l.delete(time.Second)
			l.want(l.turn(), "SIGTERM hook/0", "SIGTERM plain/0")
			l.wait(time.Second)
			l.want(l.turn())
			l.wait(time.Second)
			l.want(l.turn(), "SIGKILL hook/0", "SIGKILL plain/0")
		},
		"none, asked for later, is none": func(l *life) {
			l.delete(100 * time.Second)
			l.turn()
			l.wait(30 * time.Second)
			l.delete(0)
			l.want(l.turn(), "SIGKILL hook/0", "SIGKILL plain/0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, hooked("hook", "plain"))
			l.turn()
			l.turn(l.started("hook", 0), l.started("plain", 0))
			test(l)
		})
	}
}

// TestEachEndHasItsGrace: the time between the signal and SIGKILL, by what ends the pod. The time of a preStop hook counts.
func TestEachEndHasItsGrace(t *testing.T) {
	const own = 10 * time.Second // the pod's own
	evict := func(l *life) []string { return l.turn(duty.Observation{What: duty.Evicted, Message: "too big"}) }
	remove := func(grace time.Duration) func(l *life) []string {
		return func(l *life) []string {
			l.delete(grace)
			return l.turn()
		}
	}
	for name, tc := range map[string]struct {
		end          func(l *life) []string
		grace, hooks time.Duration // until SIGKILL without a hook, and for one that never ends
	}{
		"exceeds a limit of its storage":                           {evict, minimumGrace, evictionGrace},
		"preempted for a critical pod":                             {func(l *life) []string { return l.turn(duty.Observation{What: duty.Preempted}) }, own, own},
		"deleted by a taint (NoExecute), a drain or the scheduler": {remove(own), own, own},
		"evicted by the API, with a grace of its own":              {remove(5 * time.Second), 5 * time.Second, 5 * time.Second},
		"deleted within a second":                                  {remove(time.Second), minimumGrace, time.Second},
		"past its deadline": {func(l *life) []string {
			l.wait(100 * time.Second)
			return l.turn()
		}, own, own},
		"deleted, and evicted meanwhile": {func(l *life) []string {
			l.delete(own)
			return evict(l)
		}, minimumGrace, evictionGrace},
	} {
		t.Run(name, func(t *testing.T) {
			for _, fraction := range []time.Duration{0, 999 * time.Millisecond} { // the API keeps whole seconds
				l := newLife(t, hooked("hook", "plain"))
				l.pod.Spec.TerminationGracePeriodSeconds = seconds64(int64(own / time.Second))
				if strings.HasPrefix(name, "past") {
					l.pod.Spec.ActiveDeadlineSeconds = seconds64(100)
				}
				l.turn()
				l.turn(l.started("hook", 0), l.started("plain", 0))
				l.wait(fraction)
				l.want(tc.end(l), "SIGTERM hook/0", "SIGTERM plain/0")
				if took := l.untilKilled(); took["plain"] != tc.grace || took["hook"] != tc.hooks+minimumGrace {
					t.Errorf("%v, want %s and, after a hook, %s", took, tc.grace, tc.hooks+minimumGrace)
				}
			}
		})
	}
}

// TestAGracePeriodGoesOnAfterARestart: of the daemon, which does not remember whether it has sent the signal.
func TestAGracePeriodGoesOnAfterARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		down time.Duration
		want string
		left time.Duration
	}{
		"soon":                 {5 * time.Second, "SIGTERM plain/0", 26 * time.Second},
		"shortly before":       {30*time.Second - 1, "SIGTERM plain/0", minimumGrace},
		"after the whole time": {30 * time.Second, "SIGKILL plain/0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, newPod(corev1.RestartPolicyNever, "plain"))
			l.turn()
			l.turn(l.started("plain", 0))
			l.delete(30 * time.Second)
			l.want(l.turn(), "SIGTERM plain/0")
			l.wait(tc.down)
			l.issued = Issued{}
			l.issued.Resume(l.pod, l.now)
			l.want(l.turn(), tc.want)
			if tc.left == 0 {
				return
			}
			if took := l.untilKilled(); took["plain"] != tc.left {
				t.Errorf("%s are left, want %s", took["plain"], tc.left)
			}
		})
	}
}

// untilKilled returns how long it takes until each container gets SIGKILL. Hooks are over when their time is.
func (l *life) untilKilled() map[string]time.Duration {
	l.t.Helper()
	began, took := l.now, map[string]time.Duration{}
	for !l.wake.IsZero() && len(took) < len(l.pod.Spec.Containers) {
		l.now = l.wake
		for _, did := range l.turn() {
			if name, killed := strings.CutPrefix(did, "SIGKILL "); killed {
				took[strings.TrimSuffix(name, "/0")] = l.now.Sub(began)
			}
		}
	}
	return took
}

// The hook of a sidecar runs when the pod begins to end, and its signal comes when its turn has come (KEP-753).
func TestHooksOfSidecars(t *testing.T) {
	for name, test := range map[string]func(l *life){
		"the hook is over before the turn": func(l *life) {
			l.want(l.turn(l.hookDone("hook")))
			l.want(l.turn(l.exited("main", 0, 0)), "SIGTERM hook/0")
		},
		"the turn comes while the hook runs": func(l *life) {
			l.want(l.turn(l.exited("main", 0, 0)))
			l.want(l.turn(l.hookDone("hook")), "SIGTERM hook/0")
			l.wait(10 * time.Second)
			l.want(l.turn(), "SIGKILL hook/0")
		},
		"the hook takes all of the time": func(l *life) {
			l.turn(l.exited("main", 0, 0))
			l.wait(10 * time.Second)
			l.want(l.turn(l.hookDone("hook")), "SIGTERM hook/0")
			l.wait(minimumGrace)
			l.want(l.turn(), "SIGKILL hook/0")
		},
		"a shorter time ends the hook": func(l *life) {
			l.turn(l.exited("main", 0, 0))
			l.wait(time.Second)
			l.delete(time.Second)
			l.want(l.turn(), "SIGTERM hook/0")
			l.wait(minimumGrace)
			l.want(l.turn(), "SIGKILL hook/0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, hooked("side:hook", "main"))
			l.turn()
			l.turn(l.started("hook", 0))
			l.turn(l.started("main", 0))
			l.delete(10 * time.Second)
			l.want(l.turn(), "hook hook/0", "SIGTERM main/0")
			l.saw(1, "Killing", "Stopping container hook")
			l.saw(1, "Killing", "Stopping container main")
			l.want(l.turn())
			test(l)
			l.saw(1, "Killing", "Stopping container hook")
		})
	}
}

// A sidecar that is being started anew when the pod begins to end has its hook once it runs.
func TestHookOfASidecarThatIsBeingStarted(t *testing.T) {
	l := newLife(t, hooked("side:hook", "main"))
	l.turn()
	l.turn(l.started("hook", 0))
	l.turn(l.started("main", 0))
	l.want(l.turn(l.exited("hook", 0, 1)), "Launch hook/1")
	l.delete(10 * time.Second)
	l.want(l.turn(), "SIGTERM main/0")
	l.wakeIn(10 * time.Second)
	l.want(l.turn(l.started("hook", 1)), "hook hook/1")
	l.want(l.turn(l.exited("main", 0, 0)))
	l.want(l.turn(duty.Observation{What: duty.Checked, Container: "hook", Attempt: 1, Check: duty.PreStop, OK: true}), "SIGTERM hook/1")
}

// What ends a pod in less than its own time leaves its sidecars their turn after the main containers.
func TestSidecarsOfAPodThatEndsSoon(t *testing.T) {
	for name, tc := range map[string]struct {
		seen       duty.Observation
		main, side time.Duration // until SIGKILL
	}{
		"it takes too much":     {duty.Observation{What: duty.Evicted, Message: "too big"}, minimumGrace, evictionGrace + 2*minimumGrace},
		"the machine goes down": {duty.Observation{What: duty.HostStops, Took: 20 * time.Second}, 20 * time.Second, 20*time.Second + minimumGrace},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyNever, "side:side", "main")
			pod.Spec.TerminationGracePeriodSeconds = seconds64(600)
			l := newLife(t, pod)
			l.turn()
			l.turn(l.started("side", 0))
			l.turn(l.started("main", 0))
			l.want(l.turn(tc.seen), "SIGTERM main/0")
			began, took := l.now, map[string]time.Duration{}
			for range 5 {
				if l.now = l.wake; l.wake.IsZero() {
					break
				}
				for _, did := range l.turn() {
					if took[did] == 0 {
						took[did] = l.now.Sub(began)
					}
				}
			}
			if took["SIGKILL main/0"] != tc.main || took["SIGKILL side/0"] != tc.side || took["SIGTERM side/0"] != tc.side-minimumGrace {
				t.Errorf("%v", took)
			}
		})
	}
}

// Whatever the liveness and startup probes of a pod that ends say, it is not restarted: they stop.
func TestAPodThatEndsIsNotProbedForItsHealth(t *testing.T) {
	ends := func(l *life) (out []bool) {
		Apply(l.pod, &l.issued, nil, l.now)
		actions, _ := Next(l.pod, &l.issued, l.now)
		for _, a := range actions {
			out = append(out, a.Ends)
		}
		return out
	}
	l := newLife(t, newPod(corev1.RestartPolicyAlways, "a"))
	l.pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
	l.turn()
	l.turn(l.started("a", 0))
	l.turn(duty.Observation{What: duty.Checked, Container: "a", Check: duty.Liveness, Verdict: true})
	l.issued.of("a").stopping = time.Time{}
	if got := ends(l); len(got) != 1 || got[0] {
		t.Errorf("a container that is restarted: %v", got)
	}
	l.issued.of("a").stopping = time.Time{}
	l.delete(10 * time.Second)
	if got := ends(l); len(got) != 1 || !got[0] {
		t.Errorf("a pod that is deleted: %v", got)
	}
}
