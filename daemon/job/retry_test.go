package job

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/retry"
)

// fail lets everything of a Job fail, again and again, until the Job has failed, but for the pods of some indexes.
func (w *world) fail(but ...string) {
	for range 100 {
		if w.record.Finished() {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(w.pods)) {
			if p := w.pods[name]; p == nil || ended(p) {
				continue
			}
			w.start(name)
			index := w.pods[name].Annotations[batchv1.JobCompletionIndexAnnotation]
			if slices.Contains(but, index) {
				w.end(name, 0)
			} else {
				w.end(name, 1)
			}
			w.settle()
		}
		w.pass(10 * time.Minute)
	}
	panic("it does not fail")
}

func (w *world) retry() {
	w.edit(func(j *batchv1.Job) {
		if err := retry.Begin(j, retry.Request{}, "me", w.now); err != nil {
			panic(err)
		}
	})
	w.settle()
}

// indexesOf returns the indexes of the pods of an attempt, in the order of their creation.
func (w *world) indexesOf(attempt int) (all []string) {
	for _, c := range w.created {
		if batch.PodAttempt(c.v.Annotations) == attempt {
			all = append(all, c.v.Annotations[batchv1.JobCompletionIndexAnnotation])
		}
	}
	return all
}

func TestRetry(t *testing.T) {
	for name, tc := range map[string]struct {
		spec      func(*batchv1.JobSpec)
		succeed   []string
		again     []string // the indexes of the next attempt's first pods
		succeeded int32    // when it begins
	}{
		"the indexes that have failed": {func(s *batchv1.JobSpec) {
			indexed(4, 4)(s)
			s.BackoffLimitPerIndex, s.BackoffLimit = ptr.To[int32](1), ptr.To[int32](100)
		}, []string{"0", "2"}, []string{"1", "3"}, 2},
		"the indexes that have not succeeded": {func(s *batchv1.JobSpec) {
			indexed(4, 4)(s)
			s.BackoffLimit = ptr.To[int32](1)
		}, []string{"0"}, []string{"1", "2", "3"}, 1},
		"all, if none has": {indexed(2, 2), nil, []string{"0", "1"}, 0},
		"the completions that are missing": {func(s *batchv1.JobSpec) {
			s.Parallelism, s.Completions, s.BackoffLimit = ptr.To[int32](2), ptr.To[int32](2), ptr.To[int32](0)
		}, nil, []string{"", ""}, 0},
		"a work queue": {func(s *batchv1.JobSpec) {
			s.Parallelism, s.Completions, s.BackoffLimit = ptr.To[int32](2), nil, ptr.To[int32](0)
		}, nil, []string{"", ""}, 0},
		"what a rule of podFailurePolicy has ended": {func(s *batchv1.JobSpec) {
			indexed(2, 2)(s)
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:      batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{1}},
			}}}
		}, []string{"0"}, []string{"1"}, 1},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := begin(tc.spec)
				w.fail(tc.succeed...)
				was := w.job.Status
				w.pass(time.Hour)
				if restart {
					w.record = w.rebuilt()
				}
				w.retry()
				s := &w.job.Status
				if s.Failed != 0 || s.Succeeded != tc.succeeded || s.CompletedIndexes != was.CompletedIndexes ||
					!s.StartTime.Time.Equal(w.now.Truncate(time.Second)) || w.conditions() != "" {
					t.Error(describe(s))
				}
				got := w.indexesOf(2)
				if slices.Sort(got); !slices.Equal(got, tc.again) {
					t.Errorf("runs %v again, want %v", got, tc.again)
				}
				if n := strings.Count(strings.Join(w.reasons(), " "), "Retried"); n != 1 {
					t.Errorf("%d events that it was retried", n)
				}
				// Counts and back-offs begin anew: it fails in the same way, after as long.
				w.fail(tc.succeed...)
				if again := w.job.Status; tc.succeed == nil && again.Failed != was.Failed {
					t.Errorf("failed %d at first and %d then", was.Failed, again.Failed)
				}
				w.retry()
				for _, name := range w.names() {
					w.start(name)
					w.end(name, 0)
				}
				w.settle()
				w.pass(time.Hour)
				if !strings.Contains(w.conditions(), "Complete=True") {
					t.Error(describe(&w.job.Status))
				}
				all := batch.Attempts(w.job.Annotations)
				if len(all) != 2 || all[0].Failed != was.Failed || all[0].Reason != batch.End(&was).Reason || all[1].Attempt != 2 {
					t.Errorf("%+v", all)
				}
			})
		}
	}
}

func TestARetryEndsTheBackoff(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](0) })
	w.end(w.names()[0], 1)
	w.settle()
	w.retry()
	if st := w.record.Standing(w.settings); len(w.names()) != 1 || st.Failures != 0 || st.Failed != 0 {
		t.Errorf("%v %+v", w.names(), st)
	}
}

func TestARetriedJobThatIsSuspendedWaits(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](0) })
	w.end(w.names()[0], 1)
	w.settle()
	w.edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
	w.retry()
	if len(w.names()) != 0 || w.job.Status.StartTime != nil {
		t.Error(describe(&w.job.Status))
	}
	suspend(w, false)
	if len(w.names()) != 1 || w.pods[w.names()[0]].Status.Phase != corev1.PodPending {
		t.Error(describe(&w.job.Status))
	}
}
