package job

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

func onExit(a batchv1.PodFailurePolicyAction, container *string, op batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: a, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		ContainerName: container, Operator: op, Values: codes,
	}}
}

func onCondition(a batchv1.PodFailurePolicyAction, t corev1.PodConditionType, s corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: a, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: t, Status: s}}}
}

func TestPodFailurePolicyRules(t *testing.T) {
	const (
		in, notIn                                       = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
		failJob, ignore                                 = batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore
		count, failIndex                                = batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex
		yes, no                                         = corev1.ConditionTrue, corev1.ConditionFalse
		none             batchv1.PodFailurePolicyAction = ""
	)
	pod := &Pod{
		Name:       "j-abcde",
		Exits:      []batch.Exit{{Container: "main", Code: 3}, {Container: "side", Code: 42}, {Container: "init", Code: 7}},
		Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: yes}},
	}
	for name, c := range map[string]struct {
		rules   []batchv1.PodFailurePolicyRule
		action  batchv1.PodFailurePolicyAction
		message string
	}{
		"no rule":                       {nil, none, ""},
		"no rule matches":               {[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, in, 1)}, none, ""},
		"an exit code in a list":        {[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, in, 1, 42)}, failJob, "Container side for pod n/j-abcde failed with exit code 42 matching FailJob rule at index 0"},
		"the first container is named":  {[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, in, 3, 42)}, failJob, "Container main for pod n/j-abcde failed with exit code 3 matching FailJob rule at index 0"},
		"an exit code not in a list":    {[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, notIn, 3)}, failJob, "Container side for pod n/j-abcde failed with exit code 42 matching FailJob rule at index 0"},
		"all exit codes are in a list":  {[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, notIn, 3, 7, 42)}, none, ""},
		"only the container asked for":  {[]batchv1.PodFailurePolicyRule{onExit(failJob, ptr.To("main"), in, 42)}, none, ""},
		"an init container":             {[]batchv1.PodFailurePolicyRule{onExit(failIndex, ptr.To("init"), in, 7)}, failIndex, ""},
		"the first rule that matches":   {[]batchv1.PodFailurePolicyRule{onExit(count, nil, in, 1), onExit(ignore, nil, in, 3), onExit(failJob, nil, in, 3)}, ignore, ""},
		"a rule may only count":         {[]batchv1.PodFailurePolicyRule{onExit(count, nil, in, 3), onExit(failJob, nil, in, 3)}, count, ""},
		"a condition":                   {[]batchv1.PodFailurePolicyRule{onCondition(failJob, corev1.DisruptionTarget, yes)}, failJob, "Pod n/j-abcde has condition DisruptionTarget matching FailJob rule at index 0"},
		"a condition of another status": {[]batchv1.PodFailurePolicyRule{onCondition(ignore, corev1.DisruptionTarget, no)}, none, ""},
		"another condition":             {[]batchv1.PodFailurePolicyRule{onCondition(ignore, "Other", yes)}, none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			action, message := match(&batchv1.PodFailurePolicy{Rules: c.rules}, "n", pod)
			if action != c.action || message != c.message {
				t.Errorf("%q %q", action, message)
			}
		})
	}
}

func TestPodFailurePolicyInAJob(t *testing.T) {
	policy := func(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.JobSpec) {
		return func(s *batchv1.JobSpec) {
			s.Parallelism, s.Completions, s.BackoffLimit = ptr.To[int32](2), ptr.To[int32](2), ptr.To[int32](0)
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
			s.PodReplacementPolicy = ptr.To(batchv1.Failed)
		}
	}
	disrupted := onCondition(batchv1.PodFailurePolicyActionIgnore, corev1.DisruptionTarget, corev1.ConditionTrue)
	disrupt := func(w *world, name string) {
		w.set(name, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		})
	}
	t.Run("an ignored failure does not count", func(t *testing.T) {
		w := begin(policy(disrupted))
		disrupt(w, w.names()[0])
		w.end(w.names()[0], 1)
		if w.settle(); w.job.Status.Failed != 0 || len(w.job.Status.Conditions) > 0 {
			t.Error(describe(&w.job.Status))
		}
	})
	t.Run("another one does", func(t *testing.T) {
		w := begin(policy(disrupted))
		w.end(w.names()[0], 1)
		if w.settle(); w.job.Status.Failed != 2 || w.conditions() != "FailureTarget=True BackoffLimitExceeded" {
			t.Error(describe(&w.job.Status))
		}
	})
	t.Run("of several pods that end the Job the first to end is named", func(t *testing.T) {
		w := begin(policy(onExit(batchv1.PodFailurePolicyActionFailJob, nil, batchv1.PodFailurePolicyOnExitCodesOpIn, 42)))
		names := w.names()
		w.end(names[1], 42)
		w.now = w.now.Add(time.Second)
		w.end(names[0], 42)
		w.settle()
		if v := standing(w.job.Status.Conditions, batchv1.JobFailureTarget); v == nil || !strings.Contains(v.message, names[1]) {
			t.Errorf("%+v", v)
		}
	})
	t.Run("what would be ignored is left out when the Job fails", func(t *testing.T) {
		w := begin(policy(disrupted, onExit(batchv1.PodFailurePolicyActionFailJob, nil, batchv1.PodFailurePolicyOnExitCodesOpIn, 42)))
		disrupt(w, w.names()[1])
		w.end(w.names()[0], 42)
		if w.settle(); w.job.Status.Failed != 1 || *w.job.Status.Terminating != 1 {
			t.Error(describe(&w.job.Status))
		}
		for _, releases := range w.outcomes {
			for _, rel := range releases {
				if want := map[Outcome]batchv1.PodFailurePolicyAction{Failed: "FailJob", neither: "Ignore"}[rel.Outcome]; rel.Action != want {
					t.Errorf("%v", rel)
				}
			}
		}
	})
}
