package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

func TestManagedBy(t *testing.T) {
	for by, pods := range map[string]int{"": 1, "kubernetes.io/job-controller": 1, "example.com/other": 0} {
		w := begin(func(s *batchv1.JobSpec) {
			if by != "" {
				s.ManagedBy = &by
			}
		})
		if len(w.created) != pods || len(w.revisions) > 0 != (pods > 0) {
			t.Errorf("managed by %q: %d pods, %d revisions", by, len(w.created), len(w.revisions))
		}
	}
}

func TestUnknownCompletionMode(t *testing.T) {
	job := newJob(func(s *batchv1.JobSpec) { s.CompletionMode = ptr.To[batchv1.CompletionMode]("Other") })
	d := Decide(NewRecord(job, nil), someTime, Settings{})
	if len(d.Create)+len(d.Status) > 0 || len(d.Events) != 1 || d.Events[0].Reason != "UnknownCompletionMode" {
		t.Errorf("%+v", d)
	}
}

// Lists of a hundred thousand indexes are not written for each of them: the longer they are, the longer they wait, and
// what they hold is exact in the end.
func TestLargeStatusesAreWrittenLessOften(t *testing.T) {
	const n = 20_000
	job := newJob(indexed(n, n))
	w := newWorld(someTime, job)
	w.settings.Batch = n
	w.settle()
	longest, apart := 0, time.Duration(0)
	var last time.Time
	w.after = func(d Decision) {
		for _, s := range d.Status {
			if longest > 1<<10 && len(s.Conditions) == 0 {
				apart = max(apart, w.now.Sub(last))
			}
			longest, last = max(longest, len(s.CompletedIndexes)), w.now
		}
	}
	before := len(w.revisions)
	for _, odd := range []int{0, 1} { // every other first, then those between
		for i := odd; i < n; i += 2 {
			w.now = w.now.Add(time.Millisecond)
			w.end(w.created[i].v.Name, 0)
			if w.settle(); !w.record.Finished() && len(w.record.at(done)) > 0 && !w.wake.After(w.now) {
				t.Fatal("what waits is forgotten")
			}
		}
	}
	if !w.record.Finished() || w.job.Status.CompletedIndexes != fmt.Sprintf("0-%d", n-1) || w.job.Status.Succeeded != n {
		t.Errorf("%s", describe(&w.job.Status)[:200])
	}
	revisions := len(w.revisions) - before
	if longest < 50_000 || revisions > n/10 || apart > time.Second {
		t.Errorf("lists of up to %d bytes in %d revisions, up to %v apart", longest, revisions, apart)
	}
	t.Logf("lists of up to %d bytes in %d revisions, up to %v apart", longest, revisions, apart)
}

func TestALargeStatusDoesNotDelayConditions(t *testing.T) {
	var half Indexes
	for i := int32(0); i < 2000; i += 2 {
		half.Add(i)
	}
	job := newJob(indexed(2000, 2))
	job.Status.CompletedIndexes, job.Status.Succeeded = half.String(), int32(half.Len())
	w := newWorld(someTime, job)
	w.settle()
	n := len(w.revisions)
	w.startAll()
	if len(w.revisions) != n || w.wake.IsZero() {
		t.Fatal("pods that are ready are written at once")
	}
	suspend(w, true)
	if w.conditions() != "Suspended=True JobSuspended" || w.job.Status.StartTime != nil {
		t.Error("suspension is written late")
	}
	for _, c := range w.created {
		w.end(c.v.Name, 1)
	}
	w.settle()
	suspend(w, false)
	if w.conditions() != "Suspended=False JobResumed" || w.job.Status.StartTime == nil {
		t.Error("resumption is written late")
	}
}

func TestAStatusThatSomebodyElseWroteIsTakenForWhatItSays(t *testing.T) {
	w := begin(indexed(4, 2))
	w.edit(func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.Succeeded = "2,3", 2 })
	w.settle()
	w.endIndex(0, 0)
	if s := &w.job.Status; s.CompletedIndexes != "0,2,3" || s.Succeeded != 3 || len(w.created) != 2 {
		t.Errorf("%d created, %s", len(w.created), describe(s))
	}
	if w.endIndex(1, 0); !w.record.Finished() {
		t.Error(describe(&w.job.Status))
	}
}

func TestDecideChangesNothing(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](2), ptr.To[int32](4) })
	w.end(w.names()[0], 1)
	before := sumsOf(w.record)
	first, second := Decide(w.record, w.now, Settings{}), Decide(w.record, w.now, Settings{})
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("decided again:\n%s", diff)
	}
	if diff := cmp.Diff(before, sumsOf(w.record)); diff != "" {
		t.Errorf("the record changed:\n%s", diff)
	}
}
