package history

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

// TestDurations has runs of a CronJob, of a Job that is created again and again, and others that do not count.
func TestDurations(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	at := func(s int) metav1.Time { return metav1.NewTime(begin.Add(time.Duration(s) * time.Second)) }
	run := func(name, cronJob, result string, took int) wire.Job {
		first, queued := at(100), at(0)
		j := wire.Job{Namespace: "ns", Name: name, UID: name, CronJob: cronJob, Created: queued, Started: &queued, Ended: at(100 + took), Result: result}
		pod := wire.Pod{Name: name, Started: &first, Ended: at(100 + took), Result: wire.PodSucceeded}
		if j.Succeeded = 1; result != wire.Complete {
			j.Succeeded, j.Failed, pod.Result = 0, 1, wire.PodFailed
		}
		j.Pods = []wire.Pod{pod}
		return j
	}
	// Its first pod began after the first of two pauses, and two of its pods were in the second.
	paused := run("paused", "", wire.Complete, 100)
	paused.PausedSeconds, paused.Succeeded = 90, 2
	paused.Pods[0].PausedSeconds = 30
	paused.Pods = append(paused.Pods, paused.Pods[0])
	large := run("large", "", wire.Complete, 100) // its pods are in parts of their own
	large.PausedSeconds, large.Pods = 90, nil
	r := newRig(t, Limits{Age: 1 << 60, Size: 1 << 30})
	r.namespace("ns", "first", begin)
	for i := range 3 {
		r.append(run(fmt.Sprint("backup-", i), "backup", wire.Complete, 10+i))
	}
	for i := range durationsOfName + 5 {
		r.append(run("again", "", wire.Complete, i))
	}
	r.append(run("again", "", wire.Failed, 1000), run("other", "", wire.Failed, 7), paused, large)
	must(t, r.store.View(func(s *store.Snapshot) error {
		all, err := AllDurations(s)
		must(t, err)
		for name, c := range map[string]struct {
			of   string
			want []time.Duration
		}{
			"without the time in the queue, the last first": {
				RunName("ns", "x", "backup"), []time.Duration{12 * time.Second, 11 * time.Second, 10 * time.Second},
			},
			"failures do not count": {RunName("ns", "other", ""), nil},
		} {
			if d := all[c.of]; d == nil || !slices.Equal(d.Jobs, c.want) || !slices.Equal(d.Pods, c.want) {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if d := all[RunName("ns", "paused", "")]; d.Jobs[0] != 40*time.Second || d.Pods[0] != 70*time.Second {
			t.Errorf("what was paused: %+v", d)
		}
		if d := all[RunName("ns", "large", "")]; d.Jobs[0] != 110*time.Second {
			t.Errorf("what was paused of a large one: %+v", d)
		}
		d, err := DurationsOf(s, "ns", "again", "")
		if len(d.Jobs) > durationsOfName || len(d.Jobs) < durationsOfName-1 || d.Jobs[0] != (durationsOfName+4)*time.Second {
			t.Errorf("%d: %v", len(d.Jobs), d.Jobs)
		}
		if none, err := DurationsOf(s, "ns", "none", ""); err != nil || len(none.Jobs) > 0 {
			t.Errorf("%v %v", none, err)
		}
		return err
	}))
}

// Who has a name of a namespace now learns nothing of the runs of who had it before.
func TestDurationsAreOfThisNamespace(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	r := newRig(t, Limits{Age: 1 << 60, Size: 1 << 30})
	run := func(namespace, uid string) wire.Job {
		start, end := metav1.NewTime(begin), metav1.NewTime(begin.Add(time.Minute))
		return wire.Job{
			Namespace: namespace, NamespaceUID: uid, Name: "j", UID: uid, Created: start, Started: &start, Ended: end, Result: wire.Complete, Succeeded: 1,
			Pods: []wire.Pod{{Name: "p", Started: &start, Ended: end, Result: wire.PodSucceeded}},
		}
	}
	r.namespace("same", "now", begin)
	r.namespace("other", "second", begin.Add(time.Hour))
	part := run("other", "first")
	part.Part = true
	r.append(run("same", "now"), run("other", "first"), part, run("gone", "first"))
	must(t, r.store.View(func(s *store.Snapshot) error {
		all, err := AllDurations(s)
		for namespace, want := range map[string]int{"same": 1, "other": 0, "gone": 0} {
			d := all[RunName(namespace, "j", "")]
			if n := len(cmp.Or(d, &Durations{}).Pods); n != want {
				t.Errorf("%s: %d runs, want %d", namespace, n, want)
			}
		}
		return err
	}))
}
