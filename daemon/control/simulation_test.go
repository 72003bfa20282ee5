package control_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/simulation"
	"github.com/jobd/jobd/runtime/simulated"
)

// What is simulated is what the daemon does. Random Jobs are played by both, in virtual time.
func TestTheSimulationIsWhatTheDaemonDoes(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				j := randomJob(rand.New(rand.NewPCG(seed, 6)))
				w.Create(j)
				begin := j.CreationTimestamp.Time
				result, err := simulation.Run(simulation.Config{
					Job: j, Behave: asAnnotated(t, j), Begin: begin, MaxPods: 1000, Allocatable: node.Resources{"cpu": 3000},
					Settings: job.Settings{BackoffBase: 10 * time.Second, BackoffCap: 6 * time.Minute},
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(24 * time.Hour)
				got := w.Job("j")
				if diff := cmp.Diff(outcome(&got.Status, w.Pods(), begin), outcome(&result.Status, result.Left, begin)); diff != "" {
					t.Errorf("%+v\n%v\n-daemon +simulation:\n%s\n%s", j.Spec, j.Spec.Template.Annotations, diff, result.Text())
				}
			})
		})
	}
}

// outcome is what is to be equal: how the Job has ended, and which pods it has left, by the second.
func outcome(s *batchv1.JobStatus, pods []*corev1.Pod, begin time.Time) (lines []string) {
	at := func(t metav1.Time) time.Duration { return t.Sub(begin.Truncate(time.Second)).Truncate(time.Second) }
	for _, p := range pods {
		lines = append(lines, fmt.Sprintf("pod of %s at %s: %s", p.Annotations[batchv1.JobCompletionIndexAnnotation],
			at(p.CreationTimestamp), p.Status.Phase))
	}
	slices.Sort(lines)
	lines = append(lines, fmt.Sprintf("active %d succeeded %d failed %d completed %q failed %q", s.Active, s.Succeeded, s.Failed,
		s.CompletedIndexes, ptr.Deref(s.FailedIndexes, "none")))
	for _, c := range s.Conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s at %s", c.Type, c.Status, c.Reason, at(c.LastTransitionTime)))
	}
	return lines
}

// randomJob makes a Job whose pods end as its annotations say.
func randomJob(r *rand.Rand) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
	s := &j.Spec
	s.Parallelism = ptr.To(1 + r.Int32N(4))
	if r.IntN(4) > 0 {
		s.Completions = ptr.To(1 + r.Int32N(6))
	}
	codes := fmt.Sprint(r.IntN(2))
	if r.IntN(2) == 0 {
		s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		s.Completions = ptr.To(1 + r.Int32N(6))
		var all []string
		for i := range *s.Completions {
			if code := []int{0, 0, 0, 1, 42, 43}[r.IntN(6)]; code > 0 {
				all = append(all, fmt.Sprintf("%d:%d", i, code))
			}
		}
		if codes = "0"; len(all) > 0 {
			codes = strings.Join(all, ",")
		}
		switch r.IntN(4) {
		case 0, 1:
			s.BackoffLimitPerIndex = ptr.To(r.Int32N(3))
			if r.IntN(2) == 0 {
				s.MaxFailedIndexes = ptr.To(r.Int32N(*s.Completions))
			}
		case 2:
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To(1 + r.Int32N(*s.Completions))}}}
		}
	}
	if s.BackoffLimitPerIndex == nil {
		s.BackoffLimit = ptr.To(r.Int32N(5))
	}
	s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	switch r.IntN(4) {
	case 0:
		if s.BackoffLimitPerIndex == nil {
			s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			if s.CompletionMode == nil {
				codes = []string{"1,1,0", "1,0", "1"}[r.IntN(3)]
			}
		}
	case 1, 2:
		code := func(c int32, a batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
			return batchv1.PodFailurePolicyRule{Action: a, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{c},
			}}
		}
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			code(42, batchv1.PodFailurePolicyActionFailJob), code(44, batchv1.PodFailurePolicyActionCount),
		}}
		if s.BackoffLimitPerIndex != nil {
			s.PodFailurePolicy.Rules = append(s.PodFailurePolicy.Rules, code(43, batchv1.PodFailurePolicyActionFailIndex))
		}
	}
	if r.IntN(3) == 0 {
		s.ActiveDeadlineSeconds = ptr.To(1 + r.Int64N(120))
	}
	if r.IntN(4) == 0 {
		j.Annotations = map[string]string{"jobd.dev/backoff-base": "3s", "jobd.dev/backoff-cap": "20s"}
	}
	// Pods that were created in the same second wait for room in the order of their UIDs, which are random. That matters
	// where indexes differ.
	if r.IntN(2) == 0 && s.CompletionMode == nil {
		s.Template.Spec.Containers = controltest.Asking([]string{"500m", "1", "2"}[r.IntN(3)])
	}
	if r.IntN(5) == 0 && s.CompletionMode != nil {
		s.Scheduling = gangOf("j").Spec.Scheduling
		s.Parallelism = ptr.To(min(*s.Parallelism, 3))
	}
	// Pods that start together end at the same moment, in an order that is left to chance. So there is one at a time where
	// the order matters, and none ends at a full second, when deadlines and back-offs do.
	perIndex := s.BackoffLimitPerIndex != nil && s.MaxFailedIndexes == nil && s.PodFailurePolicy == nil
	if codes != "0" && !perIndex || s.SuccessPolicy != nil {
		s.Parallelism, s.Scheduling = ptr.To[int32](1), nil
	}
	s.Template.Annotations = map[string]string{
		simulated.Duration: fmt.Sprintf("%d.3s", 1+r.IntN(30)), simulated.ExitCode: codes,
	}
	return j
}

// asAnnotated behaves as the simulated runtime does.
func asAnnotated(t *testing.T, j *batchv1.Job) func(simulation.Start) simulation.End {
	annotations := j.Spec.Template.Annotations
	after, err := time.ParseDuration(annotations[simulated.Duration])
	if err != nil {
		t.Fatal(err)
	}
	return func(s simulation.Start) simulation.End {
		end := simulation.End{After: after}
		for n, entry := range strings.Split(annotations[simulated.ExitCode], ",") {
			index, code, has := strings.Cut(entry, ":")
			switch {
			case has && index == strconv.Itoa(s.Index):
				end.Exit, _ = strconv.Atoi(code)
			case !has && n <= s.Restart:
				end.Exit, _ = strconv.Atoi(entry)
			}
		}
		return end
	}
}
