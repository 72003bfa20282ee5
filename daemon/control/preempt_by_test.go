package control_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/store"
)

// prior is a Job of a priority that takes so much CPU for that long, and says how it is preempted.
func prior(name, cpu, duration string, priority int32, by string) *batchv1.Job {
	j := asking(name, cpu, duration)
	if priority > 0 {
		j.Spec.Template.Spec.PriorityClassName = "high"
	}
	if by != "" {
		j.Annotations = map[string]string{core.PreemptByAnnotation: by}
	}
	return j
}

// prioritized is a machine with a class of a higher priority.
func prioritized(t *testing.T) *world {
	w := small(t)
	w.Put(store.Key("priorityclasses."+schedulingv1.GroupName, "", "high"), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10})
	return w
}

func is(t *testing.T, w *world, name, state string) {
	t.Helper()
	if j := w.Job(name); batch.State(j) != state {
		t.Errorf("%s is %s, want %s: %+v", name, batch.State(j), state, j.Status.Conditions)
	}
}

// What a higher priority displaces stands still and goes on where it was, over restarts of the daemon at any time.
func TestWhatAHigherPriorityDisplacesIsPaused(t *testing.T) {
	for name, restarts := range map[string]bool{"": false, "with restarts": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := prioritized(t)
				defer w.End()
				pass := func(d time.Duration) {
					time.Sleep(d)
					if restarts {
						w.Stop()
						w.Start()
						synctest.Wait()
					}
				}
				low := prior("low", "3", "1m", 0, core.PreemptByPause)
				low.Spec.ActiveDeadlineSeconds = ptr.To[int64](100)
				w.Create(low)
				pass(10 * time.Second)
				before := podOfJob(w, "low")
				w.Create(prior("high", "3", "1h", 10, ""))
				pass(10 * time.Second)
				w.Create(asking("later", "1", "1m"))
				pass(30 * time.Minute)
				is(t, w, "low", batch.StatePreempted)
				is(t, w, "high", batch.StateRunning)
				is(t, w, "later", batch.StateWaiting)
				p := podOfJob(w, "low")
				if _, frozen := core.PausedSince(p); !frozen || p.UID != before.UID || p.Status.Phase != corev1.PodRunning {
					t.Fatalf("it is not frozen: %+v", p.Status)
				}
				said := w.Events(p.Name)
				for _, words := range []string{"Preempted: Paused for pod ", "Paused: Froze the containers, since a pod of a higher priority has their CPU"} {
					if !slices.ContainsFunc(said, func(e string) bool { return strings.HasPrefix(e, words) }) {
						t.Errorf("no event %q: %q", words, said)
					}
				}
				pass(30 * time.Minute)
				is(t, w, "high", batch.StateComplete)
				is(t, w, "low", batch.StateRunning)
				is(t, w, "later", batch.StateWaiting)
				j := w.Job("low")
				if d := batch.PausedFor(j.Annotations); d < time.Hour || d > time.Hour+time.Minute || d != core.PausedFor(podOfJob(w, "low")) {
					t.Errorf("it was paused for %s, and its pod for %s", d, core.PausedFor(podOfJob(w, "low")))
				}
				pass(2 * time.Minute)
				is(t, w, "low", batch.StateComplete)
				pass(2 * time.Minute)
				is(t, w, "later", batch.StateComplete)
			})
		})
	}
}

// What somebody pauses stays paused when its CPU is free again, and goes on by "jobctl continue" once there is room for it.
func TestAPauseOfTheUserOutlastsAPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := prioritized(t)
		defer w.End()
		w.Create(prior("low", "2", "10m", 0, core.PreemptByPause))
		time.Sleep(10 * time.Second)
		w.Create(prior("high", "2", "10m", 10, ""))
		time.Sleep(10 * time.Second)
		is(t, w, "low", batch.StatePreempted)
		pause(w, "low", true)
		is(t, w, "low", batch.StatePaused)
		w.Stop()
		w.Start()
		time.Sleep(time.Hour)
		is(t, w, "high", batch.StateComplete)
		is(t, w, "low", batch.StatePaused)
		w.Create(prior("other", "2", "10m", 0, ""))
		time.Sleep(time.Minute)
		is(t, w, "other", batch.StateRunning)
		pause(w, "low", false)
		time.Sleep(time.Second)
		is(t, w, "low", batch.StatePreempted) // others have its CPU
		time.Sleep(10 * time.Minute)
		is(t, w, "other", batch.StateComplete)
		is(t, w, "low", batch.StateRunning)
	})
}

// What is to become of pods is said by their Job, or by its namespace, and may be changed at any time. Where CPU is not enough they end.
func TestHowPodsArePreempted(t *testing.T) {
	memory := func(j *batchv1.Job, amount string) *batchv1.Job {
		j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(amount)
		return j
	}
	namespace := func(w *world, by string) {
		ns := &corev1.Namespace{}
		key := store.Key(objects.Namespaces, "", "default")
		if !w.Read(key, ns) {
			t.Fatal("there is no namespace at " + key)
		}
		ns.Annotations = map[string]string{core.PreemptByAnnotation: by}
		w.Put(key, ns)
		synctest.Wait()
	}
	for name, c := range map[string]struct {
		low    *batchv1.Job
		high   *batchv1.Job
		begin  func(w *world)
		paused bool
	}{
		"nobody says":           {low: prior("low", "2", "1h", 0, "")},
		"by pause":              {low: prior("low", "2", "1h", 0, "pause"), paused: true},
		"its namespace says":    {low: prior("low", "2", "1h", 0, ""), begin: func(w *world) { namespace(w, "pause") }, paused: true},
		"it says otherwise":     {low: prior("low", "2", "1h", 0, "evict"), begin: func(w *world) { namespace(w, "pause") }},
		"its namespace did say": {low: prior("low", "2", "1h", 0, ""), begin: func(w *world) { namespace(w, "pause"); namespace(w, "evict") }},
		"memory is short":       {low: memory(prior("low", "2", "1h", 0, "pause"), "600Mi"), high: memory(prior("high", "1", "1m", 1, ""), "600Mi")},
		"there is enough of memory": {
			low: memory(prior("low", "2", "1h", 0, "pause"), "400Mi"), high: memory(prior("high", "1", "1m", 1, ""), "600Mi"), paused: true,
		},
		"it is told later": {low: prior("low", "2", "1h", 0, ""), paused: true, begin: func(w *world) {
			j := w.Job("low")
			j.Annotations = map[string]string{core.PreemptByAnnotation: core.PreemptByPause}
			w.Put(objects.Key(objects.Jobs, j), j)
			synctest.Wait()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := prioritized(t)
				w.Stop()
				w.Allocatable = requests.Resources{corev1.ResourceCPU: 2000, corev1.ResourceMemory: 1 << 30}
				w.Start()
				defer w.End()
				w.Create(c.low)
				time.Sleep(10 * time.Second)
				before := podOfJob(w, "low").UID
				if c.begin != nil {
					c.begin(w)
				}
				if c.high == nil {
					c.high = prior("high", "2", "1m", 1, "")
				}
				w.Create(c.high)
				time.Sleep(40 * time.Second)
				is(t, w, "high", batch.StateRunning)
				if p := podOfJob(w, "low"); (p.UID == before) != c.paused {
					t.Errorf("its pod is %s, %+v", p.Name, p.Status.Conditions)
				}
				time.Sleep(time.Minute)
				is(t, w, "low", batch.StateRunning)
			})
		})
	}
}

// Of a Job of many pods as many are paused as are needed, and whatever becomes of those, and of the Job, nothing is left of it.
func TestPausedPodsEnd(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"the Job is suspended": func(w *world) {
			j := w.Job("low")
			j.Spec.Suspend = ptr.To(true)
			w.Put(objects.Key(objects.Jobs, j), j)
		},
		"the paused pod is deleted": func(w *world) {
			for _, p := range w.Pods() {
				if _, displaced := core.DisplacedSince(p); displaced {
					p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(p.CreationTimestamp), ptr.To[int64](1)
					w.Put(objects.Key(objects.Pods, p), p)
				}
			}
		},
		"the other Job is suspended": func(w *world) {
			j := w.Job("high")
			j.Spec.Suspend = ptr.To(true)
			w.Put(objects.Key(objects.Jobs, j), j)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := prioritized(t)
				defer w.End()
				low := prior("low", "1", "10m", 0, core.PreemptByPause)
				low.Spec.Parallelism, low.Spec.Completions = ptr.To[int32](2), ptr.To[int32](2)
				w.Create(low)
				time.Sleep(time.Minute)
				w.Create(prior("high", "2", "10m", 10, ""))
				time.Sleep(time.Minute)
				if j := w.Job("low"); batch.PausedBy(&j.Status) != batch.PodsPreempted || batch.State(j) != batch.StateRunning {
					t.Errorf("%+v", j.Status)
				}
				end(w)
				time.Sleep(time.Minute)
				if j := w.Job("low"); name != "the paused pod is deleted" && batch.PausedBy(&j.Status) != "" {
					t.Errorf("%+v", j.Status)
				}
				for _, job := range []string{"low", "high"} {
					if j := w.Job(job); ptr.Deref(j.Spec.Suspend, false) {
						j.Spec.Suspend = ptr.To(false)
						w.Put(objects.Key(objects.Jobs, j), j)
					}
				}
				time.Sleep(2 * time.Hour)
				is(t, w, "low", batch.StateComplete)
				is(t, w, "high", batch.StateComplete)
				for _, p := range w.Pods() {
					if p.Status.Phase == corev1.PodRunning {
						t.Error(fmt.Sprint(p.Name, " runs"))
					}
				}
			})
		})
	}
}

// A pod that cannot be frozen ends in the usual way, also if it was to be frozen already: others wait for its CPU.
func TestAPodThatCannotBePausedIsEnded(t *testing.T) {
	for name, paused := range map[string]bool{"": false, "its Job is paused": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := prioritized(t)
				defer w.End()
				w.Runtime.Unfreezable = true
				w.Create(prior("low", "2", "10m", 0, core.PreemptByPause))
				time.Sleep(10 * time.Second)
				before := podOfJob(w, "low").UID
				if paused {
					pause(w, "low", true)
					time.Sleep(time.Minute)
				}
				w.Create(prior("high", "2", "1m", 10, ""))
				time.Sleep(40 * time.Second)
				is(t, w, "high", batch.StateRunning)
				if p := podOfJob(w, "low"); p != nil && p.UID == before && p.Status.Phase == corev1.PodRunning {
					t.Errorf("it runs: %+v", p.Status)
				}
				pause(w, "low", false)
				time.Sleep(time.Hour)
				is(t, w, "low", batch.StateComplete)
			})
		})
	}
}

// A window that pauses a Job does so also of what is paused for others already, and lets go on only what has its CPU.
func TestAWindowThatPausesWhatIsPreempted(t *testing.T) {
	for lasts, want := range map[string]struct{ opens, later string }{
		"2h":  {batch.StateRunning, batch.StateComplete},    // the others are done before the window opens again
		"24h": {batch.StatePreempted, batch.StateRunning},   // they are done twenty minutes after that, within it
		"25h": {batch.StatePreempted, batch.StatePreempted}, // they are done when it is closed again
	} {
		t.Run(lasts, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := prioritized(t)
				defer w.End()
				begin := today(t)
				low := prior("low", "3", "30m", 0, core.PreemptByPause)
				maps.Copy(low.Annotations, inWindow("01:00-02:00", core.WindowPause))
				w.Create(low)
				w.at(begin, 0, "01:10")
				is(t, w, "low", batch.StateRunning)
				w.at(begin, 0, "01:20")
				w.Create(prior("high", "3", lasts, 10, ""))
				w.at(begin, 0, "01:30")
				is(t, w, "low", batch.StatePreempted)
				w.at(begin, 0, "02:10")
				is(t, w, "low", batch.StatePaused)
				w.Stop()
				w.Start()
				synctest.Wait()
				is(t, w, "low", batch.StatePaused)
				w.at(begin, 1, "00:59")
				is(t, w, "low", batch.StatePaused)
				w.at(begin, 1, "01:05")
				is(t, w, "low", want.opens)
				w.at(begin, 1, "01:25")
				is(t, w, "low", want.later)
			})
		})
	}
}
