package pod

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// world is a whole node for one pod: the loop, a worker that may take its time, and the host. Everything happens in an
// order that rapid draws.
type world struct {
	t      *rapid.T
	pod    *corev1.Pod
	issued Issued
	now    time.Time
	wake   time.Time

	actions []duty.Action              // given to the worker, not yet taken
	seen    []duty.Observation         // reported, not yet folded in
	held    map[string]*runtime.Status // the runtime's containers
	started map[string]int             // how often a container with that id was started
	lost    bool
	deleted bool

	paused   bool            // so is the Job
	frozen   map[string]bool // by id
	freezing bool            // the worker knows that it has frozen something; so does nobody after a crash
	ending   bool            // the worker has been told that the pod ends
}

func (w *world) id(container string, attempt int) string {
	return runtime.ContainerID(string(w.pod.UID), container, attempt)
}

// loop is one turn of the control loop over some of what was reported.
func (w *world) loop(n int) {
	batch := w.seen[:n]
	w.seen = slices.Clone(w.seen[n:])
	before := w.pod.DeepCopy()
	w.issued.Pause(w.paused)
	Apply(w.pod, &w.issued, batch, w.now)
	w.check(before)
	actions, wake := Next(w.pod, &w.issued, w.now)
	if !wake.IsZero() && !wake.After(w.now) {
		w.t.Fatalf("asks to be called at %s, and it is %s", wake, w.now)
	}
	w.issued.Record(actions, w.now)
	w.actions, w.wake = append(w.actions, actions...), wake
	for _, a := range actions {
		w.ending = w.ending || a.Ends
	}
}

// check checks that what must never happen has not.
func (w *world) check(before *corev1.Pod) {
	if podspec.Ended(before) && before.Status.Phase != w.pod.Status.Phase {
		w.t.Fatalf("phase went from %s to %s", before.Status.Phase, w.pod.Status.Phase)
	}
	if before.Status.Phase == corev1.PodRunning && w.pod.Status.Phase == corev1.PodPending {
		w.t.Fatalf("phase went back to Pending")
	}
	for i := range before.Spec.Containers {
		old, now := mainContainer(before, i), mainContainer(w.pod, i)
		// One that waits for the host has its next attempt counted, and shows the last one if that does not come.
		if old.status != nil && now.status.RestartCount < old.status.RestartCount && !old.awaitsHost() {
			w.t.Fatalf("restarts of %s went from %d to %d", old.spec.Name, old.status.RestartCount, now.status.RestartCount)
		}
	}
	live := map[string]int{}
	for _, s := range w.held {
		if s.State == runtime.Running {
			live[s.Name]++
		}
	}
	for name, n := range live {
		if n > 1 {
			w.t.Fatalf("%d attempts of %s run at a time", n, name)
		}
	}
	for id, n := range w.started {
		if n > 1 {
			w.t.Fatalf("%s was started %d times", id, n)
		}
	}
	if podspec.Ended(w.pod) {
		for _, s := range w.held {
			if s.State == runtime.Running {
				w.t.Fatalf("the pod is %s and %s runs", w.pod.Status.Phase, s.ID)
			}
		}
	}
}

// work takes one action as a worker does.
func (w *world) work(a duty.Action) {
	id := w.id(a.Container, a.Attempt)
	about := duty.Observation{UID: w.pod.UID, Container: a.Container, Attempt: a.Attempt, At: w.now}
	switch a.Kind {
	case duty.TearDown:
		for id, s := range w.held {
			if s.State == runtime.Running {
				w.t.Fatalf("tear-down while %s runs", id)
			}
			delete(w.held, id)
		}
		about.What = duty.TornDown
	case duty.Pause, duty.Continue:
		w.freezing = a.Kind == duty.Pause
		if a.Kind == duty.Pause && w.ending {
			return
		}
		about.What, about.OK = map[duty.Kind]duty.What{duty.Pause: duty.Paused, duty.Continue: duty.Continued}[a.Kind], true
		for id, s := range w.held {
			if s.State != runtime.Running {
				continue
			}
			if rapid.IntRange(0, 9).Draw(w.t, "hangs") == 0 {
				about.OK, about.Message = false, "a process hangs"
			} else {
				w.frozen[id] = a.Kind == duty.Pause
			}
		}
	case duty.Stop:
		// The worker would cancel a launch that it still has.
		for i, other := range w.actions {
			if other.Kind == duty.Launch && other.Container == a.Container && other.Attempt == a.Attempt {
				w.actions = slices.Delete(w.actions, i, i+1)
				about.What = duty.Dropped
				w.seen = append(w.seen, about)
				return
			}
		}
		if w.freezing || conditions.Find(w.pod.Status.Conditions, core.PodPaused) != nil {
			delete(w.frozen, id)
		}
		if s, ok := w.held[id]; ok && s.State == runtime.Running {
			if a.Signal == syscall.SIGKILL || !w.frozen[id] && rapid.Bool().Draw(w.t, "obeys") {
				w.end(s, 128+int(a.Signal))
			}
		}
		return
	case duty.Launch:
		if s, ok := w.held[id]; ok {
			w.report(*s)
			return
		}
		switch rapid.SampledFrom([]string{"start", "start", "start", "start", "pull", "mount", "start error"}).Draw(w.t, "launch") {
		case "pull":
			about.What, about.Reason, about.Message = duty.StartFailed, duty.ErrImagePull, "no"
		case "mount":
			about.What, about.Reason = duty.SetUpFailed, "FailedMount"
		case "start error":
			s := &runtime.Status{ID: id, Name: a.Container, Attempt: a.Attempt, State: runtime.Exited, ExitCode: 128, StartError: "no", FinishedAt: w.now}
			w.started[id]++
			w.held[id] = s
			w.report(*s)
			return
		default:
			delete(w.held, w.id(a.Container, a.Attempt-1))
			s := &runtime.Status{ID: id, Name: a.Container, Attempt: a.Attempt, State: runtime.Running, StartedAt: w.now,
				Image: find(w.pod, a.Container).spec.Image}
			w.started[id]++
			w.held[id] = s
			w.report(*s)
			return
		}
	}
	w.seen = append(w.seen, about)
}

// report reports the state of a container.
func (w *world) report(s runtime.Status) {
	o := duty.Observation{UID: w.pod.UID, What: duty.Started, Container: s.Name, Attempt: s.Attempt, At: w.now, Status: s}
	switch s.State {
	case runtime.Exited:
		o.What = duty.Exited
	case runtime.Lost:
		o.What = duty.Lost
	}
	w.seen = append(w.seen, o)
}

// end lets a container end.
func (w *world) end(s *runtime.Status, code int) {
	s.State, s.ExitCode, s.FinishedAt = runtime.Exited, code, w.now
	w.report(*s)
}

// restart kills the daemon: what was under way is gone, and the runtime is asked for the state of its containers.
func (w *world) restart(rebooted bool) {
	w.actions, w.seen, w.issued = nil, nil, Issued{}
	w.freezing, w.ending = false, false
	if rebooted {
		w.lost = true
		for id, s := range w.held {
			if rapid.Bool().Draw(w.t, "forgotten") {
				delete(w.held, id)
			} else {
				s.State = runtime.Lost
			}
		}
	}
	if !podspec.Ended(w.pod) {
		var list []runtime.Status
		for _, s := range w.held {
			list = append(list, *s)
		}
		slices.SortFunc(list, func(a, b runtime.Status) int { return a.StartedAt.Compare(b.StartedAt) })
		as := w.pod.DeepCopy()
		if w.paused {
			ToBePaused(as)
		}
		w.seen = Recover(as, list, rebooted, w.now)
	}
	w.loop(len(w.seen))
}

func drawPod(t *rapid.T) *corev1.Pod {
	names := []string{"init:i", "side:s", "init:j", "side:u"}
	names = slices.DeleteFunc(names, func(name string) bool { return !rapid.Bool().Draw(t, name) })
	names = append(names, []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "containers")]...)
	pod := newPod(rapid.SampledFrom([]corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}).Draw(t, "policy"), names...)
	pod.Spec.TerminationGracePeriodSeconds = seconds64(5)
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name != "i" && list[i].Name != "j" && rapid.IntRange(0, 3).Draw(t, "probed") == 0 {
				list[i].StartupProbe, list[i].ReadinessProbe = &corev1.Probe{}, &corev1.Probe{}
			}
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "deadline") == 0 {
		pod.Spec.ActiveDeadlineSeconds = seconds64(int64(rapid.IntRange(1, 300).Draw(t, "deadlineSeconds")))
	}
	return pod
}

// TestAnythingMayHappen lets everything happen in any order, and then lets the pod end.
func TestAnythingMayHappen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, pod: drawPod(t), now: epoch, held: map[string]*runtime.Status{}, started: map[string]int{}, frozen: map[string]bool{}}
		w.loop(0)
		steps := map[string]func(*rapid.T){
			"loop": func(t *rapid.T) { w.loop(rapid.IntRange(0, len(w.seen)).Draw(t, "batch")) },
			"work": func(t *rapid.T) {
				if len(w.actions) > 0 {
					a := w.actions[0]
					w.actions = slices.Clone(w.actions[1:])
					w.work(a)
				}
			},
			"end": func(t *rapid.T) {
				if s := w.running(t); s != nil {
					w.end(s, rapid.SampledFrom([]int{0, 0, 1, 42}).Draw(t, "code"))
				}
			},
			"check": func(t *rapid.T) {
				if s := w.running(t); s != nil {
					o := duty.Observation{UID: w.pod.UID, What: duty.Checked, Container: s.Name, Attempt: s.Attempt, At: w.now}
					o.Check = rapid.SampledFrom([]duty.Check{duty.PostStart, duty.Startup, duty.Readiness, duty.Liveness, duty.PreStop}).Draw(t, "check")
					o.OK, o.Verdict = rapid.Bool().Draw(t, "ok"), rapid.Bool().Draw(t, "verdict")
					w.seen = append(w.seen, o)
				}
			},
			"wait": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
			},
			"wake": func(t *rapid.T) {
				if w.wake.After(w.now) {
					w.now = w.wake
				}
			},
			"pause":    func(*rapid.T) { w.paused = true },
			"continue": func(*rapid.T) { w.paused = false },
			"restart":  func(t *rapid.T) { w.restart(false) },
			"reboot": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "really") == 0 {
					w.restart(true)
				}
			},
			"host": func(t *rapid.T) {
				o := duty.Observation{UID: w.pod.UID, What: duty.HostStops, At: w.now, Took: time.Duration(rapid.IntRange(1, 10).Draw(t, "s")) * time.Second}
				o.What = rapid.SampledFrom([]duty.What{duty.HostStops, duty.HostStays, duty.HostStays}).Draw(t, "what")
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					w.seen = append(w.seen, o)
				}
			},
			"repeat": func(t *rapid.T) {
				if len(w.seen) > 0 {
					w.seen = append(w.seen, w.seen[rapid.IntRange(0, len(w.seen)-1).Draw(t, "which")])
				}
			},
			"image": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					c := &w.pod.Spec.Containers[rapid.IntRange(0, len(w.pod.Spec.Containers)-1).Draw(t, "container")]
					c.Image = rapid.SampledFrom([]string{"busybox", "other"}).Draw(t, "image")
				}
			},
			"look": func(t *rapid.T) {
				if n := len(w.pod.Spec.EphemeralContainers); n < 2 && rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					w.pod.Spec.EphemeralContainers = append(w.pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
						EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: []string{"x", "y"}[n], Image: "busybox"},
					})
				}
			},
			"delete": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "really") == 0 && !w.deleted {
					w.deleted = true
					grace := int64(rapid.IntRange(0, 10).Draw(t, "grace"))
					at := metav1.NewTime(w.now.Add(time.Duration(grace) * time.Second).Truncate(time.Second))
					w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = &at, &grace
				}
			},
		}
		t.Repeat(steps)
		w.finish()
	})
}

func (w *world) running(t *rapid.T) *runtime.Status {
	var ids []string
	for id, s := range w.held {
		if s.State == runtime.Running && !w.frozen[id] {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return w.held[rapid.SampledFrom(ids).Draw(t, "which")]
}

// finish continues the Job, lets every container exit with 0 that is not frozen, and carries out every action: then the pod must end.
func (w *world) finish() {
	w.paused = false
	w.seen = append(w.seen, duty.Observation{UID: w.pod.UID, What: duty.HostStays, At: w.now})
	for turn := 0; !Done(w.pod); turn++ {
		if turn > 1000 {
			w.t.Fatalf("does not come to its end: %s\nactions %v, observations %v, wake %s, now %s", states(w.pod), w.actions, w.seen, w.wake, w.now)
		}
		for _, id := range slices.Sorted(maps.Keys(w.held)) {
			s := w.held[id]
			if s.State != runtime.Running || w.frozen[id] {
				continue
			}
			if c := find(w.pod, s.Name); c.sidecar() && isFalse(c.status.Started) {
				w.seen = append(w.seen, duty.Observation{UID: w.pod.UID, What: duty.Checked, Container: s.Name, Attempt: s.Attempt, At: w.now,
					Check: duty.Startup, OK: true, Verdict: true})
			} else {
				w.end(s, 0)
			}
		}
		for len(w.actions) > 0 {
			a := w.actions[0]
			w.actions = slices.Clone(w.actions[1:])
			w.work(a)
		}
		if len(w.seen) == 0 && w.wake.After(w.now) {
			w.now = w.wake
		}
		w.loop(len(w.seen))
	}
	if len(w.held) > 0 {
		w.t.Fatalf("done, but %d containers are held", len(w.held))
	}
	containers(w.pod, func(c container) bool {
		attempts := 0
		for id := range w.started {
			for n := range 1000 {
				if id == w.id(c.spec.Name, n) {
					attempts++
					break
				}
			}
		}
		// A reboot counts launches in doubt as attempts, even if they never took place.
		if n := int(c.status.RestartCount); !w.lost && attempts > 0 && n != attempts-1 {
			w.t.Fatalf("%s was started %d times and shows %d restarts", c.spec.Name, attempts, n)
		}
		return true
	})
}

func states(pod *corev1.Pod) string {
	s := string(pod.Status.Phase)
	containers(pod, func(c container) bool {
		s += fmt.Sprintf("; %s/%d %+v last %+v", c.spec.Name, c.status.RestartCount, c.status.State, c.status.LastTerminationState)
		return true
	})
	return s
}

// TestBatchesDoNotMatter folds the same observations in one by one and all at once: except for the times at which
// conditions changed, and for messages of the moment, the outcome is the same.
func TestBatchesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := drawPod(t)
		first.Spec.ActiveDeadlineSeconds = nil
		list := drawHistory(t, first.DeepCopy())
		now := epoch.Add(time.Minute)
		second := first.DeepCopy()
		var a, b Issued
		Apply(first, &a, nil, epoch)
		Apply(second, &b, nil, epoch)
		for i := range list {
			Apply(first, &a, list[i:i+1], now)
		}
		for rest := list; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			Apply(second, &b, rest[:n], now)
			rest = rest[n:]
		}
		for _, pod := range []*corev1.Pod{first, second} {
			for i := range pod.Status.Conditions {
				pod.Status.Conditions[i].LastTransitionTime = metav1.Time{}
			}
		}
		if !equal(first, second) {
			t.Fatalf("one by one: %s\nin batches: %s", states(first), states(second))
		}
	})
}

// drawHistory draws something that can have been observed of a pod.
func drawHistory(t *rapid.T, pod *corev1.Pod) (list []duty.Observation) {
	now := epoch
	Apply(pod, &Issued{}, nil, now)
	for range rapid.IntRange(1, 12).Draw(t, "n") {
		now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
		var may []duty.Observation
		containers(pod, func(c container) bool {
			if c.running() {
				o := duty.Observation{Container: c.spec.Name, Attempt: int(c.status.RestartCount),
					Status: runtime.Status{StartedAt: c.status.State.Running.StartedAt.Time}}
				for _, o.What = range []duty.What{duty.Exited, duty.Lost} {
					may = append(may, o)
				}
			}
			return true
		})
		due, _ := Next(pod, &Issued{}, now.Add(time.Hour))
		for _, a := range due {
			if a.Kind == duty.Launch {
				o := duty.Observation{Container: a.Container, Attempt: a.Attempt, Status: runtime.Status{StartedAt: now}}
				for _, o.What = range []duty.What{duty.Started, duty.Exited, duty.Lost} {
					may = append(may, o)
				}
			}
		}
		if len(list) > 0 && rapid.Bool().Draw(t, "again") {
			list = append(list, rapid.SampledFrom(list).Draw(t, "which"))
			continue
		}
		if len(may) == 0 {
			return list
		}
		o := rapid.SampledFrom(may).Draw(t, "seen")
		o.UID, o.At = pod.UID, now
		o.Status.FinishedAt, o.Status.ExitCode = now, rapid.IntRange(0, 1).Draw(t, "code")
		list = append(list, o)
		Apply(pod, &Issued{}, []duty.Observation{o}, now)
	}
	return list
}
