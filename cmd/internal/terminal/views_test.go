package terminal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/cmd/internal/terminal"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/causes/causestest"
	"github.com/jobd/jobd/daemon/picture"
)

var now = time.Unix(1_700_000_000, 0)

// drawJob makes a Job with any status, also with those that no controller writes.
func drawJob(t *rapid.T) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "u", CreationTimestamp: metav1.NewTime(now)}}
	j.Spec.Completions = ptr.To[int32](3)
	j.Spec.Suspend = rapid.SampledFrom([]*bool{nil, ptr.To(false), ptr.To(true)}).Draw(t, "suspend")
	if rapid.Bool().Draw(t, "deleted") {
		j.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	if rapid.Bool().Draw(t, "started") {
		j.Status.StartTime = ptr.To(metav1.NewTime(now))
	}
	count := rapid.Int32Range(0, 2)
	j.Status.Active, j.Status.Failed, j.Status.Succeeded = count.Draw(t, "active"), count.Draw(t, "failed"), count.Draw(t, "succeeded")
	j.Status.Ready = rapid.SampledFrom([]*int32{nil, ptr.To[int32](0), ptr.To[int32](1)}).Draw(t, "ready")
	for _, kind := range []batchv1.JobConditionType{
		batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet, batchv1.JobSuspended,
	} {
		if status := rapid.SampledFrom([]corev1.ConditionStatus{"", corev1.ConditionFalse, corev1.ConditionTrue}).Draw(t, string(kind)); status != "" {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: status, Reason: "Because", LastTransitionTime: metav1.NewTime(now),
			})
		}
	}
	return j
}

// TestOneWordForAState asks every view for the state of the same Job. What the page in the browser says is compared by
// TestStatesInABrowser of daemon/e2e.
func TestOneWordForAState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		want := batch.State(j)
		if said := causes.Job(causes.World{Now: now, Source: why.FromRecords}, j, nil); said.State != want {
			t.Errorf("why says %s instead of %s", said.State, want)
		}
		drawn := picture.Draw(picture.Subject{Job: j}, picture.NewEnded("j", false), nil, now)
		if drawn.Job.State != want {
			t.Errorf("the picture says %s instead of %s", drawn.Job.State, want)
		}
		if word, _, _ := progress.JobState(j); word != strings.ToLower(want) {
			t.Errorf("submit and report say %s instead of %s", word, want)
		}
		var m progress.Model
		m.SetJob(&batchv1.Job{ObjectMeta: j.ObjectMeta, Spec: batchv1.JobSpec{Suspend: ptr.To(!ptr.Deref(j.Spec.Suspend, false))}}, now)
		for _, e := range m.SetJob(j, now) {
			if e.State != strings.ToLower(want) {
				t.Errorf("an event of submit says %s instead of %s", e.State, want)
			}
		}
		list := (&terminal.Overview{Jobs: []batchv1.Job{*j}}).Draw(now, terminal.Style{Width: 120, Height: 10})
		if !strings.Contains(strings.Join(list, "\n"), want) {
			t.Errorf("watch does not say %s: %q", want, list)
		}
	})
}

// TestEveryReasonInEveryView asks each view for each reason that there is: it says the deepest cause, in the same words, and
// never that there is none. Whether submit gives up on it is asked beside submit.
func TestEveryReasonInEveryView(t *testing.T) {
	for name, tc := range causestest.Cases() {
		t.Run(name, func(t *testing.T) {
			j, said := tc.Job, tc.Explain()
			all := []*why.Explanation{said}
			if tc.Alone {
				all = append(all, tc.ExplainPod())
			}
			for _, e := range all {
				if e.Reason != tc.Reason {
					t.Errorf("the reason is %q, want %q; %s %+v", e.Reason, tc.Reason, e.Message, e.Causes)
				}
				waits := e.State == batch.StateWaiting
				if waits && (e.Reason == "" || !strings.Contains(e.Message, tc.Reason)) {
					t.Errorf("it waits, and says %q for the reason %q", e.Message, e.Reason)
				}
				if waits && !strings.HasPrefix(tc.Reason, "about to ") && why.Find(e.Causes, "StartsSoon") != nil {
					t.Errorf("it is said to start soon: %+v", e.Causes)
				}
			}
			var help strings.Builder
			if err := why.Print(&help, said); err != nil || !strings.Contains(causestest.Words(help.String()), tc.Help) {
				t.Errorf("no %q in\n%s", tc.Help, help.String())
			}
			if len([]rune(said.Reason)) > 130 || strings.Contains(said.Reason, "\n") {
				t.Errorf("%q is too long for a list", said.Reason)
			}
			list := (&terminal.Overview{Jobs: []batchv1.Job{*j}, Why: map[types.UID]string{"u": said.Reason}}).Draw(now, terminal.Style{Width: 200, Height: 10})
			if !strings.Contains(strings.Join(list, "\n"), tc.Reason) {
				t.Errorf("the list of watch is %q", list)
			}
			if said.State != batch.StateWaiting {
				return // the state says enough, where one Job fills the screen
			}
			drawn := picture.Draw(picture.Subject{Job: j}, picture.NewEnded("j", false), nil, now)
			view := terminal.View{Picture: *drawn.Picture, Why: said.Reason}
			if lines := terminal.Draw(&view, 0, terminal.Style{Width: 200, Height: 10}); !strings.Contains(strings.Join(lines, "\n"), tc.Reason) {
				t.Errorf("the picture of watch is %q", lines)
			}
			var m progress.Model
			m.SetJob(j, now)
			m.SetWhy(said.Reason)
			if m.Why() != tc.Reason {
				t.Errorf("submit says %q", m.Why())
			}
		})
	}
}

// TestReasonsAreComplete looks through the sources for reasons that no case of TestEveryReasonInEveryView has.
func TestReasonsAreComplete(t *testing.T) {
	cases := causestest.Cases()
	ends := []string{ // reasons of containers that have ended, and of conditions
		"Completed", "Error", "OOMKilled", "StartError", "ContainerStatusUnknown", "PodCompleted", "PodFailed", "ContainersNotInitialized",
		"ContainersNotReady", "ReadinessGatesNotReady", "PodSandboxNotReady", "DeadlineExceeded",
	}
	for _, word := range constants(t, "../../../daemon/pod/reasons.go", regexp.MustCompile(`^(reason|[A-Z])`)) {
		if _, ok := cases[word]; !ok && !slices.Contains(ends, word) {
			t.Errorf("no case has the reason %s of a container", word)
		}
	}
	for _, kind := range constants(t, "../../../daemon/fit/obstacle.go", regexp.MustCompile(`^[A-Z]`)) {
		if _, ok := cases["unfit "+kind]; !ok {
			t.Errorf("no case has the obstacle %s", kind)
		}
	}
}

// constants returns the values of the constants of a file whose names match.
func constants(t *testing.T, path string, names *regexp.Regexp) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && len(s.Names) == 1 && len(s.Values) == 1 && names.MatchString(s.Names[0].Name) {
			if literal, ok := s.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, _ := strconv.Unquote(literal.Value)
				values = append(values, value)
			}
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants", path)
	}
	return values
}
