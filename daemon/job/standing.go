package job

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Standing is what the next decisions about a Job depend on, for people who ask why nothing happens.
type Standing struct {
	// Failures is how many pods have failed since the last success, which is what the back-off counts (64 at most), and
	// LastFailure when the last of them ended. The next pod is not created before Until, which is Delay after that;
	// Base and Cap are the first and the longest delay. All are zero with backoffLimitPerIndex, see Held.
	Failures    int
	LastFailure time.Time
	Until       time.Time
	Delay       time.Duration
	Base, Cap   time.Duration
	// Held are the indexes whose next pod waits for a back-off of its own (JobSpec.BackoffLimitPerIndex).
	Held []HeldIndex
	// Refused is how many creations of pods in a row were refused, and RefusedUntil when the next is tried.
	Refused      int
	RefusedUntil time.Time
	// Deadline is when spec.activeDeadlineSeconds ends the Job; zero for never.
	Deadline time.Time
	// Failed is how many failures count against spec.backoffLimit so far, and Restarts how many restarts in place do.
	Failed   int64
	Restarts int64
}

// HeldIndex is an index whose last pod has failed, and whose next one waits.
type HeldIndex struct {
	Index    int32
	Failures int // that count against backoffLimitPerIndex, the last one included
	Until    time.Time
}

// Standing returns what the next decisions depend on.
func (r *Record) Standing(s Settings) Standing {
	s = s.withDefaults()
	st := Standing{
		Base: s.BackoffBase, Cap: s.BackoffCap,
		RefusedUntil: r.refusedUntil(),
		Failed:       int64(r.status.Failed) + int64(r.failed),
	}
	if r.refusal != nil {
		st.Refused = r.refusal.times
	}
	if r.spec.backoffBase > 0 {
		st.Base = r.spec.backoffBase
	}
	if r.spec.backoffCap > 0 {
		st.Cap = r.spec.backoffCap
	}
	if r.spec.onFailure {
		st.Restarts = r.restarts
	}
	if at, ok := r.deadlineIn(&r.status, r.pausedFor); ok {
		st.Deadline = at
	}
	if n := len(r.backoff.Failures); n > 0 && r.spec.perIndex < 0 {
		st.Failures, st.LastFailure = n, time.Unix(r.backoff.Failures[n-1], 0)
		st.Until, st.Delay = r.backoffUntil(s), r.delay(n, s)
	}
	for n, pods := range r.held {
		for _, p := range pods {
			failures := int(p.failures)
			if p.action != ignoreAction {
				failures++
			}
			st.Held = append(st.Held, HeldIndex{
				p.index, failures, time.Unix(int64(p.finished), 0).Add(r.delay(n, s)),
			})
		}
	}
	slices.SortFunc(st.Held, func(a, b HeldIndex) int { return int(a.Index - b.Index) })
	return st
}

// RuleResult says whether a rule of a policy applied, and why or why not.
type RuleResult struct {
	Index   int
	Action  batchv1.PodFailurePolicyAction // empty for rules of a success policy
	Matched bool
	// Reached says that the rule was looked at: those behind the first that matches are not.
	Reached bool
	Reason  string
}

// JudgeFailure returns what each rule of spec.podFailurePolicy says about a failed pod, in their order.
func JudgeFailure(job *batchv1.Job, pod *corev1.Pod) []RuleResult {
	if job.Spec.PodFailurePolicy == nil {
		return nil
	}
	p := Summarize(pod)
	var results []RuleResult
	reached := true
	for i := range job.Spec.PodFailurePolicy.Rules {
		rule := &job.Spec.PodFailurePolicy.Rules[i]
		r := RuleResult{Index: i, Action: rule.Action, Reached: reached}
		if r.Reason = whyMatch(rule, job.Namespace, &p); r.Reason != "" {
			r.Matched = reached
		} else {
			r.Reason = whyNoMatch(rule, &p)
		}
		reached = reached && !r.Matched
		results = append(results, r)
	}
	return results
}

// whyNoMatch returns why a rule of spec.podFailurePolicy does not match a pod.
func whyNoMatch(rule *batchv1.PodFailurePolicyRule, p *Pod) string {
	codes := rule.OnExitCodes
	if codes == nil {
		var wanted []string
		for _, c := range rule.OnPodConditions {
			wanted = append(wanted, fmt.Sprintf("%s=%s", c.Type, c.Status))
		}
		return fmt.Sprintf("the pod has no condition %s", alternatives(wanted))
	}
	var seen []string
	for _, e := range p.Exits {
		if codes.ContainerName == nil || *codes.ContainerName == e.Container {
			seen = append(seen, fmt.Sprintf("%d of container %s", e.Code, e.Container))
		}
	}
	switch {
	case len(seen) == 0 && codes.ContainerName != nil:
		return fmt.Sprintf("container %s did not fail with an exit code", *codes.ContainerName)
	case len(seen) == 0:
		return "no container failed with an exit code"
	case codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn:
		return fmt.Sprintf("exit code %s is not one of %v", alternatives(seen), codes.Values)
	}
	return fmt.Sprintf("exit code %s is one of %v, which it excludes", alternatives(seen), codes.Values)
}

func alternatives(all []string) string {
	s := ""
	for i, one := range all {
		switch {
		case i == 0:
		case i == len(all)-1:
			s += " or "
		default:
			s += ", "
		}
		s += one
	}
	return s
}

// JudgeSuccess returns how far each rule of spec.successPolicy is, by the Job's status.
func JudgeSuccess(job *batchv1.Job) []RuleResult {
	if job.Spec.SuccessPolicy == nil {
		return nil
	}
	completions := ptr.Deref(job.Spec.Completions, 0)
	completed := ParseIndexes(job.Status.CompletedIndexes, completions)
	var results []RuleResult
	reached := true
	for i, rule := range successRules(job.Spec.SuccessPolicy, completions, completed) {
		r := RuleResult{Index: i, Reached: reached, Matched: reached && rule.holds(completed.Len())}
		of := "all indexes"
		if rule.indexes != nil {
			of = "the indexes " + rule.indexes.String()
		}
		r.Reason = fmt.Sprintf("%d of %s have succeeded, and it needs %d", rule.have, of, rule.need)
		reached = reached && !r.Matched
		results = append(results, r)
	}
	return results
}

// MemoryOf returns the Memory of a Job as far as its pods tell it, for those who have no stored one.
func MemoryOf(job *batchv1.Job, pods []*corev1.Pod) *Memory {
	m := &Memory{}
	for _, p := range pods {
		switch s := Summarize(p); {
		case s.Tracked: // it is yet to be counted
		case s.Phase == corev1.PodSucceeded:
			m.succeeded(s.Finished)
		case s.Phase == corev1.PodFailed && judgedAction(job, p) != batchv1.PodFailurePolicyActionIgnore:
			m.failed(s.Finished)
		}
	}
	return m
}

// judgedAction returns the action of the rule of spec.podFailurePolicy that matches a failed pod, empty for none.
func judgedAction(job *batchv1.Job, pod *corev1.Pod) batchv1.PodFailurePolicyAction {
	p := Summarize(pod)
	action, _ := match(job.Spec.PodFailurePolicy, job.Namespace, &p)
	return action
}
