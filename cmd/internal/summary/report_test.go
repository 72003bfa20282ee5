package summary

import (
	"encoding/json"
	"encoding/xml"
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/cmd/internal/progress"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func job(kind batchv1.JobConditionType, reason string) *batchv1.Job {
	start := metav1.NewTime(now.Add(-10 * time.Second))
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"},
		Status: batchv1.JobStatus{StartTime: &start, Conditions: []batchv1.JobCondition{
			{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(now)},
		}},
	}
}

func pod(name string, index int, state progress.PodState, code int32) *progress.Pod {
	p := &progress.Pod{Name: name, State: state, Started: now.Add(-3 * time.Second), Finished: now.Add(-time.Second)}
	if index >= 0 {
		p.Index = &index
	}
	if code > 0 {
		p.ExitCode = &code
	}
	return p
}

func TestJUnit(t *testing.T) {
	tails := NewTails()
	for _, line := range []string{"one", "two <&> \x1b[31mred\x1b[0m"} {
		tails.Add(progress.Chunk{Source: progress.Source{Pod: "x-1-b"}, Text: []byte(line), Begins: true, Ends: true})
	}
	r := Report{
		Job: job(batchv1.JobFailed, "FailedIndexes"), ExitCode: 3, Logs: tails,
		Pods: []*progress.Pod{
			pod("x-1-a", 1, progress.Failed, 3), pod("x-0-a", 0, progress.Succeeded, 0), pod("x-1-b", 1, progress.Failed, 3),
			pod("x-2-a", 2, progress.Gone, 0),
		},
	}
	got, err := r.JUnit(now)
	if err != nil {
		t.Fatal(err)
	}
	want := `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="x" tests="3" failures="1" errors="0" skipped="1" time="10.000" timestamp="2026-01-02T03:03:55">
    <testcase name="index 0" classname="x" time="2.000"></testcase>
    <testcase name="index 1" classname="x" time="2.000">
      <failure message="exit code 3">one&#xA;two &lt;&amp;&gt; [31mred[0m[0m</failure>
      <system-out>one&#xA;two &lt;&amp;&gt; [31mred[0m[0m</system-out>
    </testcase>
    <testcase name="index 2" classname="x" time="2.000">
      <skipped message="gone"></skipped>
    </testcase>
  </testsuite>
</testsuites>
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What an Indexed Job says of its indexes counts, and those that had no pod are there too.
func TestEveryIndexIsATest(t *testing.T) {
	indexed := func(kind batchv1.JobConditionType, reason, completed string, failed *string) *batchv1.Job {
		j := job(kind, reason)
		j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](4)
		j.Status.CompletedIndexes, j.Status.FailedIndexes = completed, failed
		return j
	}
	running := indexed(batchv1.JobSuspended, "", "", nil)
	for rule, c := range map[string]struct {
		r    Report
		want string // of each test: passed, or its message
	}{
		"one that never ran is skipped": {Report{
			Job:  indexed(batchv1.JobFailed, "BackoffLimitExceeded", "0", nil),
			Pods: []*progress.Pod{pod("a", 0, progress.Succeeded, 0), pod("b", 1, progress.Failed, 1)},
		}, "index 0: passed, index 1: failure exit code 1, index 2: skipped it did not run, index 3: skipped it did not run"},
		"one that the Job did not count has not passed": {Report{
			Job:  indexed(batchv1.JobFailed, "DeadlineExceeded", "1", nil),
			Pods: []*progress.Pod{pod("a", 0, progress.Succeeded, 0), pod("b", 1, progress.Succeeded, 0)},
		}, "index 0: failure it ended without an error, but too late for the Job to count it: DeadlineExceeded, index 1: passed, " +
			"index 2: skipped it did not run, index 3: skipped it did not run"},
		"one that no success policy needed is skipped": {Report{
			Job:  indexed(batchv1.JobComplete, "SuccessPolicy", "0", nil),
			Pods: []*progress.Pod{pod("a", 0, progress.Succeeded, 0), pod("b", 1, progress.Failed, 143)},
		}, "index 0: passed, index 1: skipped exit code 143, index 2: skipped it did not run, index 3: skipped it did not run"},
		"one whose pods are no longer known is what the Job says": {Report{
			Job: indexed(batchv1.JobFailed, "FailedIndexes", "0-1", ptr.To("2,3")),
		}, "index 0: passed, index 1: passed, index 2: failure failed, index 3: failure failed"},
		"one of an array has its task": {Report{
			Job:    indexed(batchv1.JobFailed, "FailedIndexes", "0-1", ptr.To("2,3")),
			Values: &batch.IndexValues{Array: batch.Array{{First: 1, Step: 1, Count: 4}}},
		}, "index 0 (task=1): passed, index 1 (task=2): passed, index 2 (task=3): failure failed, index 3 (task=4): failure failed"},
		"one is what its pod says while the Job may not have counted it": {Report{
			Job: running, Interrupted: true, Pods: []*progress.Pod{pod("a", 0, progress.Succeeded, 0), pod("b", 1, progress.Running, 0)},
		}, "index 0: passed, index 1: skipped running, index 2: skipped it did not run, " +
			"index 3: skipped it did not run, job: error interrupted"},
	} {
		raw, err := c.r.JUnit(now)
		if err != nil {
			t.Fatal(err)
		}
		var got suites
		if err := xml.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		var is []string
		for _, test := range got.Suite.Cases {
			text := "passed"
			for what, p := range map[string]*problem{"failure": test.Failure, "error": test.Error, "skipped": test.Skipped} {
				if p != nil {
					text = what + " " + p.Message
				}
			}
			is = append(is, test.Name+": "+text)
		}
		if got := strings.Join(is, ", "); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", rule, got, c.want)
		}
	}
}

// A Job may have 2^31 indexes. Those with a pod are in the report, wherever they are.
func TestJUnitOfTooManyIndexes(t *testing.T) {
	r := Report{Job: job(batchv1.JobFailed, "FailedIndexes"), Pods: []*progress.Pod{pod("a", 2_000_000_000, progress.Failed, 3)}}
	r.Job.Spec.CompletionMode, r.Job.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](math.MaxInt32)
	r.Job.Status.CompletedIndexes = "0-1999999999"
	out := r.outcomes()
	if len(out) != indexes.Listed+2 || *out[len(out)-2].index != 2_000_000_000 || out[0].state != progress.Succeeded {
		t.Fatalf("%d outcomes", len(out))
	}
	if last := out[len(out)-1]; last.name != "indexes 100000 to 2147483646" || last.state != "" {
		t.Errorf("the last is %+v", last)
	}
}

func TestWhatIsAFailure(t *testing.T) {
	for rule, c := range map[string]struct {
		r                         Report
		failures, errors, skipped int
	}{
		"a pod that another made good is none": {Report{
			Job:  job(batchv1.JobComplete, ""),
			Pods: []*progress.Pod{pod("a", -1, progress.Failed, 1), pod("b", -1, progress.Succeeded, 0)},
		}, 0, 0, 1},
		"each pod of a failed Job is one": {Report{
			Job:  job(batchv1.JobFailed, "BackoffLimitExceeded"),
			Pods: []*progress.Pod{pod("a", -1, progress.Failed, 1), pod("b", -1, progress.Failed, 1)},
		}, 2, 0, 0},
		"a deadline without a pod is one":    {Report{Job: job(batchv1.JobFailed, "DeadlineExceeded")}, 1, 0, 0},
		"a Job that was refused is an error": {Report{Error: "refused"}, 0, 1, 0},
		"an interrupt is an error":           {Report{Job: job(batchv1.JobSuspended, ""), Interrupted: true}, 0, 1, 0},
	} {
		raw, err := c.r.JUnit(now)
		if err != nil {
			t.Fatal(err)
		}
		var got suites
		if err := xml.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if s := got.Suite; s.Failures != c.failures || s.Errors != c.errors || s.Skipped != c.skipped {
			t.Errorf("%s: %d failures, %d errors, %d skipped:\n%s", rule, s.Failures, s.Errors, s.Skipped, raw)
		}
	}
}

func TestSummary(t *testing.T) {
	j := job(batchv1.JobFailed, "FailedIndexes")
	j.Status.CompletedIndexes, j.Status.FailedIndexes, j.Status.Failed = "0", ptr.To("1"), 1
	r := Report{Job: j, ExitCode: 3, Pods: []*progress.Pod{pod("x-1-a", 1, progress.Failed, 3)}}
	raw, err := r.JSON(now)
	if err != nil {
		t.Fatal(err)
	}
	var s Summary
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	if s.Result != "failed" || s.ExitCode != 3 || s.Reason != "FailedIndexes" || s.Seconds != 10 || s.FailedIndexes != "1" ||
		s.Counts.Failed != 1 || len(s.Pods) != 1 || *s.Pods[0].ExitCode != 3 || s.Pods[0].Seconds != 2 {
		t.Errorf("got %s", raw)
	}
	for rule, c := range map[string]struct {
		r    Report
		want string
	}{
		"error":       {Report{Error: "no"}, "error"},
		"interrupted": {Report{Job: j, Interrupted: true}, "interrupted"},
		"complete":    {Report{Job: job(batchv1.JobComplete, "")}, "complete"},
	} {
		if got := c.r.result(); got != c.want {
			t.Errorf("%s: got %s", rule, got)
		}
	}
}

func TestTailsAreBounded(t *testing.T) {
	tails := NewTails()
	for range 3 * tailLines {
		for i := range 3 {
			tails.Add(progress.Chunk{Text: []byte(strings.Repeat("x", tailLine)), Begins: i == 0, Ends: i == 2})
		}
	}
	lines := tails.Of("")
	if len(lines) != tailLines || len(lines[0]) != tailLine {
		t.Errorf("%d lines of %d", len(lines), len(lines[0]))
	}
}
