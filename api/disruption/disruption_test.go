package disruption

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func budget(least, most string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns", Generation: 1}}
	if least != "" {
		b.Spec.MinAvailable = ptr.To(intstr.Parse(least))
	}
	if most != "" {
		b.Spec.MaxUnavailable = ptr.To(intstr.Parse(most))
	}
	b.Spec.Selector = &metav1.LabelSelector{}
	return b
}

// podsOf makes pods of a word each: "ready", "unready", "deleted" (and ready), with "job:" before it for one of a Job.
func podsOf(words ...string) *Pods {
	pods := map[string]Pod{}
	all := &Pods{Find: func(name string) (Pod, bool) { p, ok := pods[name]; return p, ok }}
	for i, word := range words {
		p := Pod{}
		if rest, ok := strings.CutPrefix(word, "job:"); ok {
			p.Controller, word = "jobs.batch", rest
		}
		p.Ready, p.Deleted = word != "unready", word == "deleted"
		pods[fmt.Sprint("p", i)] = p
		all.Add(p)
	}
	return all
}

func TestStatusOf(t *testing.T) {
	for name, c := range map[string]struct {
		least, most string
		pods        []string
		want        string // allowed, healthy/desired of expected, reason
	}{
		"as many as are needed":             {"2", "", []string{"job:ready", "job:ready"}, "0, 2/2 of 2, InsufficientPods"},
		"more than are needed":              {"2", "", []string{"job:ready", "ready", "ready"}, "1, 3/2 of 3, SufficientPods"},
		"fewer than are needed":             {"5", "", []string{"ready"}, "0, 1/5 of 1, InsufficientPods"},
		"what is not ready does not count":  {"1", "", []string{"ready", "unready"}, "0, 1/1 of 2, InsufficientPods"},
		"nor does what is being deleted":    {"1", "", []string{"ready", "deleted"}, "0, 1/1 of 2, InsufficientPods"},
		"none is needed":                    {"0", "", []string{"ready", "unready"}, "1, 1/0 of 2, SufficientPods"},
		"no pods":                           {"0", "", nil, "0, 0/0 of 0, InsufficientPods"},
		"a percentage of pods of a Job":     {"50%", "", []string{"job:ready", "job:ready"}, "0, 0/0 of 0, SyncFailed"},
		"most unavailable, of a Job":        {"", "1", []string{"job:ready", "job:ready"}, "0, 0/0 of 0, SyncFailed"},
		"most unavailable, uncontrolled":    {"", "1", []string{"ready", "ready"}, "0, 2/0 of 0, InsufficientPods"},
		"a percentage of what has no scale": {"50%", "", []string{"ready"}, "0, 1/0 of 0, InsufficientPods"},
		"neither, which validation lets be": {"", "", []string{"ready"}, "0, 1/0 of 0, InsufficientPods"},
	} {
		t.Run(name, func(t *testing.T) {
			b := budget(c.least, c.most)
			s := StatusOf(b, podsOf(c.pods...), now)
			condition := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
			got := fmt.Sprintf("%d, %d/%d of %d, %s", s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, condition.Reason)
			if got != c.want || !s.Changed {
				t.Errorf("%s (changed: %t), want %s", got, s.Changed, c.want)
			}
			if failed := condition.Reason == policyv1.SyncFailedReason; failed != (s.ObservedGeneration == 0) ||
				failed && condition.Message != "jobs.batch does not implement the scale subresource" {
				t.Errorf("generation %d, %s", s.ObservedGeneration, condition.Message)
			}
			b.Status = s.PodDisruptionBudgetStatus
			if again := StatusOf(b, podsOf(c.pods...), now.Add(time.Hour)); again.Changed || again.Event != nil {
				t.Errorf("the second time: %+v", again)
			}
		})
	}
}

// Pods whose eviction was allowed count as gone until they are, or for two minutes.
func TestEvictedPodsDoNotCount(t *testing.T) {
	b := budget("1", "")
	b.Status = StatusOf(b, podsOf("ready", "ready", "ready"), now).PodDisruptionBudgetStatus
	for _, pod := range []string{"p0", "p1"} {
		if err := Take(b, pod, now); err != nil {
			t.Fatal(err)
		}
	}
	err := Take(b, "p2", now)
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("the third: %v", err)
	}
	s := StatusOf(b, podsOf("ready", "deleted", "ready"), now.Add(time.Second))
	if s.DisruptionsAllowed != 0 || s.CurrentHealthy != 1 || len(s.DisruptedPods) != 1 || !s.Again.Equal(now.Add(2*time.Minute+time.Second)) {
		t.Errorf("while one is being deleted and one is about to be: %+v", s)
	}
	if s = StatusOf(b, podsOf("ready", "deleted", "ready"), s.Again); s.CurrentHealthy != 2 || s.DisruptionsAllowed != 1 || s.DisruptedPods != nil {
		t.Errorf("when the other was not deleted: %+v", s)
	}
}

func TestTake(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		code   int32
		says   string
	}{
		"allowed": {func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }, 0, ""},
		"an old status": {
			func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }, http.StatusTooManyRequests,
			"The disruption budget b is still being processed by the server.",
		},
		"too few healthy pods": {
			func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy = 3 }, http.StatusTooManyRequests,
			"The disruption budget b needs 3 healthy pods and has 0 currently",
		},
		"a budget that cannot be computed": {func(b *policyv1.PodDisruptionBudget) {
			b.Status = StatusOf(budget("", "1"), podsOf("job:ready"), now).PodDisruptionBudgetStatus
			b.Status.ObservedGeneration = 1
		}, http.StatusTooManyRequests, "because it failed sync: jobs.batch does not implement the scale subresource"},
		"too many that are not deleted": {func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptionsAllowed, b.Status.DisruptedPods = 1, map[string]metav1.Time{}
			for i := range mostDisrupted + 1 {
				b.Status.DisruptedPods[fmt.Sprint(i)] = metav1.NewTime(now)
			}
		}, http.StatusForbidden, "too many pending evictions"},
	} {
		t.Run(name, func(t *testing.T) {
			b := budget("1", "")
			b.Status.ObservedGeneration = 1
			c.change(b)
			err := Take(b, "p", now)
			if c.code == 0 {
				if err != nil || b.Status.DisruptionsAllowed != 0 || len(b.Status.DisruptedPods) != 1 ||
					meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition).Reason != policyv1.InsufficientPodsReason {
					t.Errorf("%v, %+v", err, b.Status)
				}
				return
			}
			status, ok := err.(apierrors.APIStatus)
			if !ok || status.Status().Code != c.code || !strings.Contains(status.Status().Details.Causes[0].Message, c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestFree(t *testing.T) {
	always, healthy := policyv1.AlwaysAllow, policyv1.IfHealthyBudget
	for _, c := range []struct {
		ready            bool
		policy           *policyv1.UnhealthyPodEvictionPolicyType
		current, desired int32
		want             bool
	}{
		{true, &always, 5, 1, false},
		{false, &always, 0, 5, true},
		{false, nil, 1, 1, true},
		{false, &healthy, 2, 1, true},
		{false, nil, 0, 1, false},
		{false, nil, 0, 0, false},
	} {
		b, p := budget("1", ""), &corev1.Pod{}
		b.Spec.UnhealthyPodEvictionPolicy, b.Status.CurrentHealthy, b.Status.DesiredHealthy = c.policy, c.current, c.desired
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		if c.ready {
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}
		if got := Free(b, p); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func TestValidate(t *testing.T) {
	bad := policyv1.UnhealthyPodEvictionPolicyType("Sometimes")
	for name, c := range map[string]struct {
		b    *policyv1.PodDisruptionBudget
		want string
	}{
		"a number":          {budget("3", ""), ""},
		"a percentage":      {budget("", "100%"), ""},
		"both":              {budget("1", "1"), "minAvailable and maxUnavailable cannot be both set"},
		"below zero":        {budget("-1", ""), "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"},
		"too large a part":  {budget("", "101%"), `spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%`},
		"a very large part": {budget("1000%", ""), "must not be greater than 100%"},
		"no number":         {budget("many", ""), `spec.minAvailable: Invalid value: "many": a valid percent string`},
		"an unknown policy": {func() *policyv1.PodDisruptionBudget {
			b := budget("1", "")
			b.Spec.UnhealthyPodEvictionPolicy = &bad
			return b
		}(), `supported values: "AlwaysAllow", "IfHealthyBudget"`},
		"a selector's operator": {func() *policyv1.PodDisruptionBudget {
			b := budget("1", "")
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}
			return b
		}(), "spec.selector.matchExpressions[0].operator"},
	} {
		got := ""
		if err := validate(c.b).ToAggregate(); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
