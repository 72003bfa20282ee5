package summary

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/cmd/internal/progress"
)

// TestFailures: what has failed is told by cause, with its indexes.
func TestFailures(t *testing.T) {
	with := func(p *progress.Pod, reason string) *progress.Pod {
		p.Reason = reason
		return p
	}
	stopped := func(p *progress.Pod) *progress.Pod {
		p.Deleted = true
		return p
	}
	indexed := func(completed string, failed *string) *batchv1.Job {
		j := job(batchv1.JobFailed, "FailedIndexes")
		j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](9)
		j.Status.CompletedIndexes, j.Status.FailedIndexes = completed, failed
		return j
	}
	for rule, c := range map[string]struct {
		r    Report
		want string
	}{
		"indexes, the most frequent cause first": {Report{Job: indexed("0-4", ptr.To("5-8")), Pods: []*progress.Pod{
			with(pod("a", 5, progress.Failed, 137), "OOMKilled"), pod("b", 6, progress.Failed, 3), pod("c", 7, progress.Failed, 3),
			with(pod("d", 8, progress.Failed, 137), "DeadlineExceeded"),
		}}, "2 exit code 3: 6-7; 1 OOMKilled: 5; 1 DeadlineExceeded: 8"},
		"those that the end of the Job's time has stopped": {Report{
			Job:  job(batchv1.JobFailed, "DeadlineExceeded"),
			Pods: []*progress.Pod{pod("a", -1, progress.Failed, 3), stopped(pod("b", -1, progress.Failed, 137)), stopped(pod("c", -1, progress.Failed, 143))},
		}, "2 DeadlineExceeded: b c; 1 exit code 3: a"},
		"as the last pod of the index did": {Report{Job: indexed("0-7", ptr.To("8")), Pods: []*progress.Pod{
			with(pod("a", 8, progress.Failed, 1), "Error"), pod("b", 8, progress.Failed, 2),
		}}, "1 exit code 2: 8"},
		"of pods that are not known": {Report{Job: indexed("0-3,7,8", ptr.To("4-6"))}, "3 failed: 4-6"},
		"of an attempt before the Job was retried": {Report{Job: func() *batchv1.Job {
			j := indexed("0-3,7,8", ptr.To("4-6"))
			j.Annotations = map[string]string{batch.AttemptsAnnotation: `[{"attempt": 1}]`}
			return j
		}(), Pods: []*progress.Pod{pod("a", 5, progress.Failed, 3)}}, "2 failed in an earlier attempt: 4,6; 1 exit code 3: 5"},
		"what did not run has no cause": {Report{Job: indexed("", nil), Pods: []*progress.Pod{pod("a", 2, progress.Failed, 1)}}, "1 exit code 1: 2"},
		"pods of a Job without indexes": {
			Report{
				Job:  job(batchv1.JobFailed, "BackoffLimitExceeded"),
				Pods: []*progress.Pod{pod("a", -1, progress.Failed, 1), pod("b", -1, progress.Succeeded, 0), pod("c", -1, progress.Failed, 1)},
			},
			"2 exit code 1: a c",
		},
		"a Job that is complete has none": {Report{Job: job(batchv1.JobComplete, ""), Pods: []*progress.Pod{pod("a", -1, progress.Failed, 1)}}, ""},
	} {
		var is []string
		for _, f := range c.r.Failures() {
			is = append(is, fmt.Sprintf("%d %s: %s%s", f.Count, f.Cause, f.Indexes, strings.Join(f.Pods, " ")))
		}
		if got := strings.Join(is, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", rule, got, c.want)
		}
	}
	var odd []int
	for i := range 1000 {
		odd = append(odd, 2*i+1)
	}
	if got := indexList(odd); !strings.HasPrefix(got, "1,3,5,") || !strings.HasSuffix(got, " more") || len(got) > 80 {
		t.Errorf("a long list is %q", got)
	}
}
