package workloads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/kueue"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/workload"
	"github.com/jobd/jobd/store"
)

// state is what a manager reads of a Workload, in one line: the conditions that are true, with the reasons that matter.
func state(w *controltest.World, name string) string {
	wl := w.Workload(name)
	if wl == nil {
		return "gone"
	}
	var is []string
	for _, c := range kueue.Conditions(wl) {
		switch {
		case c.Status != metav1.ConditionTrue:
		case c.Type == kueue.Finished, c.Type == kueue.Evicted:
			is = append(is, c.Type+"="+c.Reason)
		default:
			is = append(is, c.Type)
		}
	}
	slices.Sort(is)
	return strings.Join(is, " ")
}

func want(t *testing.T, w *controltest.World, name, want string) {
	t.Helper()
	if got := state(w, name); got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

const admitted = "Admitted QuotaReserved"

func worker(t *testing.T, run func(w *controltest.World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := controltest.Small(t).Worker()
		defer w.End()
		run(w)
	})
}

func restart(w *controltest.World) {
	w.Stop()
	w.Start()
}

func TestAJobFromItsWorkloadToItsEnd(t *testing.T) {
	for name, c := range map[string]struct{ codes, end, message string }{
		"it succeeds": {"0", "Admitted Finished=Succeeded QuotaReserved", "Reached expected number of succeeded pods"},
		"it fails":    {"3", "Admitted Finished=Failed QuotaReserved", "Job has reached the specified backoff limit"},
	} {
		t.Run(name, func(t *testing.T) {
			worker(t, func(w *controltest.World) {
				again := func() {
					restart(w)
					synctest.Wait()
				}
				w.HandOut("job-a-1", 2, "1")
				again()
				want(t, w, "job-a-1", admitted)
				w.Dispatch("job-a-1", "a", "1m", c.codes, 2, "1")
				again()
				if controltest.Suspended(w.Job("a")) || len(w.Running()) != 2 {
					t.Errorf("the Job is suspended: %v, and there are %v", controltest.Suspended(w.Job("a")), w.Running())
				}
				if owner := metav1.GetControllerOf(w.Workload("job-a-1")); owner == nil || owner.UID != w.Job("a").UID {
					t.Errorf("the Workload belongs to %+v", owner)
				}
				again()
				time.Sleep(3 * time.Minute)
				again()
				want(t, w, "job-a-1", c.end)
				if got := meta.FindStatusCondition(kueue.Conditions(w.Workload("job-a-1")), kueue.Finished); got.Message != c.message {
					t.Errorf("it says %q", got.Message)
				}
			})
		})
	}
}

// A Job with a prebuilt Workload waits for that, also where it is there first, and though somebody has not suspended it.
func TestNothingStartsBeforeItIsAdmitted(t *testing.T) {
	worker(t, func(w *controltest.World) {
		w.Bare("local", "3", "1m", nil)
		w.Dispatch("job-a-1", "a", "1m", "0", 2, "1")
		w.HandOut("job-a-1", 2, "1")
		want(t, w, "job-a-1", "")
		pending := meta.FindStatusCondition(kueue.Conditions(w.Workload("job-a-1")), kueue.QuotaReserved)
		if pending == nil || pending.Reason != "Pending" || !strings.Contains(pending.Message, "Insufficient cpu") {
			t.Errorf("it says %+v", pending)
		}
		if !controltest.Suspended(w.Job("a")) {
			t.Error("it is not suspended")
		}
		time.Sleep(time.Minute + time.Second)
		want(t, w, "job-a-1", admitted)
		if running := w.Running(); len(running) != 2 {
			t.Errorf("there are %v", running)
		}
	})
}

// Room is held for what is admitted, also from others that wait here, and over a restart; it goes to the pods that it was held for.
func TestRoomIsHeld(t *testing.T) {
	worker(t, func(w *controltest.World) {
		w.HandOut("job-a-1", 2, "1")
		w.HandOut("job-b-1", 2, "1")
		want(t, w, "job-a-1", admitted)
		want(t, w, "job-b-1", "")
		w.Bare("small", "1", "1h", nil)
		w.Bare("other", "1", "1m", nil)
		restart(w)
		if running := w.Running(); !slices.Equal(running, []string{"small"}) {
			t.Errorf("beside what is held there are %v", running)
		}
		w.Dispatch("job-a-1", "a", "10m", "0", 2, "1")
		if running := w.Running(); len(running) != 3 || slices.Contains(running, "other") {
			t.Errorf("there are %v", running)
		}
		restart(w)
		time.Sleep(10*time.Minute + 30*time.Second)
		want(t, w, "job-b-1", "") // the local pod has waited for longer, and there is 1 left
		time.Sleep(time.Minute)
		want(t, w, "job-b-1", admitted)
	})
}

func TestWhatIsWithdrawnFreesItsRoom(t *testing.T) {
	worker(t, func(w *controltest.World) {
		w.HandOut("job-a-1", 3, "1")
		w.Bare("local", "3", "1h", nil)
		if running := w.Running(); len(running) != 0 {
			t.Errorf("there are %v", running)
		}
		w.Delete(store.Key(objects.KueueWorkloads, "default", "job-a-1"), w.Workload("job-a-1"))
		synctest.Wait()
		if running := w.Running(); len(running) != 1 {
			t.Errorf("there are %v", running)
		}
	})
}

// A manager that does not come back does not keep the machine: the room is given back, and held again ever more rarely.
func TestAJobThatDoesNotCome(t *testing.T) {
	worker(t, func(w *controltest.World) {
		w.HandOut("job-a-1", 3, "1")
		time.Sleep(workload.Patience - time.Second)
		want(t, w, "job-a-1", admitted)
		time.Sleep(2 * time.Second)
		want(t, w, "job-a-1", "Evicted=JobDidNotCome")
		restart(w)
		held := 0
		const day = 24 * 60
		for range day {
			time.Sleep(time.Minute)
			if state(w, "job-a-1") == admitted {
				held++
			}
		}
		if held == 0 || held > day/8 {
			t.Errorf("room was held for %d of %d minutes", held, day)
		}
		for state(w, "job-a-1") != "Evicted=JobDidNotCome" {
			time.Sleep(time.Minute)
		}
		w.Dispatch("job-a-1", "a", "1m", "0", 3, "1") // it comes late, and waits for nothing
		want(t, w, "job-a-1", admitted)
		if running := w.Running(); len(running) != 3 {
			t.Errorf("there are %v", running)
		}
	})
}

func TestDeactivation(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*kueue.Workload)
		want string
	}{
		"by the spec": {func(wl *kueue.Workload) {
			wl.Spec = []byte(strings.Replace(string(wl.Spec), "{", `{"active":false,`, 1))
			wl.Generation++
		}, "Evicted=Deactivated"},
		"by a condition": {func(wl *kueue.Workload) {
			_ = kueue.SetConditions(wl, append(kueue.Conditions(wl), metav1.Condition{
				Type: kueue.DeactivationTarget, Status: metav1.ConditionTrue, Reason: "MaximumExecutionTimeExceeded", Message: "too long",
			}))
		}, "DeactivationTarget Evicted=DeactivatedDueToMaximumExecutionTimeExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			worker(t, func(w *controltest.World) {
				w.HandOut("job-a-1", 2, "1")
				w.Dispatch("job-a-1", "a", "1h", "0", 2, "1")
				w.EditWorkload("job-a-1", c.edit)
				restart(w)
				time.Sleep(time.Minute)
				want(t, w, "job-a-1", c.want)
				if !controltest.Suspended(w.Job("a")) || len(w.Running()) != 0 {
					t.Errorf("it goes on: %v", w.Running())
				}
			})
		})
	}
}

// Where the node takes no pods, what has not started goes elsewhere, and what runs goes on.
func TestCordon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.Self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
		w.Worker()
		cordon := func(on bool) {
			n := &corev1.Node{}
			w.Read(store.Key(objects.Nodes, "", "here"), n)
			n.Spec.Unschedulable = on
			w.Put(store.Key(objects.Nodes, "", "here"), n)
			synctest.Wait()
		}
		w.HandOut("job-runs-1", 1, "1")
		w.Dispatch("job-runs-1", "runs", "1h", "0", 1, "1")
		w.HandOut("job-waits-1", 1, "1")
		want(t, w, "job-waits-1", admitted)
		cordon(true)
		want(t, w, "job-runs-1", admitted)
		want(t, w, "job-waits-1", "Evicted=NodeUnavailable")
		w.HandOut("job-new-1", 1, "1")
		want(t, w, "job-new-1", "")
		restart(w)
		want(t, w, "job-runs-1", admitted)
		cordon(false)
		want(t, w, "job-waits-1", admitted)
		want(t, w, "job-new-1", admitted)
	})
}

func TestWhatIsNoJobIsLeftAlone(t *testing.T) {
	worker(t, func(w *controltest.World) {
		for _, name := range []string{"rayjob-a-1", "jobset-a-1"} {
			w.HandOut(name, 1, "1")
			want(t, w, name, "")
			c := meta.FindStatusCondition(kueue.Conditions(w.Workload(name)), kueue.QuotaReserved)
			if c == nil || !strings.Contains(c.Message, "of another kind") {
				t.Errorf("%s says %+v", name, c)
			}
		}
		for i, spec := range []string{`{}`, `{"podSets":[{"count":-1}]}`, `{"podSets":7}`, `{"podSets":[{"count":1,"template":{"spec":{"containers":[` +
			`{"resources":{"requests":{"cpu":"1e999999999"}}}]}}}]}`, `{"podSets":[` + strings.Repeat(`{},`, 50) + `{}]}`} {
			name := fmt.Sprintf("job-%d-1", i)
			w.HandOut(name, 1, "1")
			w.EditWorkload(name, func(wl *kueue.Workload) { wl.Spec, wl.Generation = []byte(spec), 2 })
			want(t, w, name, "")
		}
		w.Bare("local", "3", "1m", nil)
		if running := w.Running(); len(running) != 1 {
			t.Errorf("room is held: %v", running)
		}
	})
}

// The manager deletes the Job first, and then the Workload, which may be gone by then.
func TestTheWorkloadGoesAfterItsJob(t *testing.T) {
	worker(t, func(w *controltest.World) {
		w.HandOut("job-a-1", 2, "1")
		w.Dispatch("job-a-1", "a", "1h", "0", 2, "1")
		w.Delete(store.Key(objects.Jobs, "default", "a"), w.Job("a"))
		time.Sleep(2 * time.Minute)
		if got := state(w, "job-a-1"); got != "gone" {
			t.Errorf("it is %q", got)
		}
		w.HandOut("job-b-1", 3, "1")
		want(t, w, "job-b-1", admitted)
	})
}

// Of two Jobs that name a Workload, the first is its Job.
func TestTwoJobsOfAWorkload(t *testing.T) {
	worker(t, func(w *controltest.World) {
		w.HandOut("job-a-1", 1, "1")
		w.Dispatch("job-a-1", "a", "1h", "0", 1, "1")
		time.Sleep(time.Second)
		w.Dispatch("job-a-1", "b", "1h", "0", 1, "1")
		restart(w)
		synctest.Wait()
		if controltest.Suspended(w.Job("a")) || !controltest.Suspended(w.Job("b")) {
			t.Error("both run, or the wrong one")
		}
	})
}

// Hundreds that wait cost little when there is more room: nothing is read of those that still do not fit.
func TestManyThatWait(t *testing.T) {
	worker(t, func(w *controltest.World) {
		for i := range 300 {
			w.HandOut(fmt.Sprintf("job-%03d-1", i), 1, "1")
			time.Sleep(time.Second)
		}
		is := 0
		for i := range 300 {
			if state(w, fmt.Sprintf("job-%03d-1", i)) == admitted {
				is++
			}
		}
		if is != 3 {
			t.Errorf("%d are admitted, and there is room for 3", is)
		}
	})
}
