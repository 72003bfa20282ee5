package jobset

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
)

// mostCompared is how many of the Jobs that have failed are compared with the rules of a failure policy, the earliest. There are more
// only if they fail at once.
const mostCompared = 50

// applyFailurePolicy decides what the failure of Jobs means for the JobSet: that it fails, or begins another attempt.
func (d *decision) applyFailurePolicy() {
	failed := d.failed()
	policy := d.js.Spec.FailurePolicy
	if policy == nil {
		d.fail("FailedJobs", withJob("jobset failed due to one or more job failures", failed[0]))
		return
	}
	rule, job := match(policy.Rules, failed)
	action, reason := jobsetv1.RestartJobSet, "DefaultFailurePolicy"
	if rule != nil {
		action, reason = rule.Action, "FailurePolicy_"+rule.Name
	} else {
		job = failed[0]
	}
	switch action {
	case jobsetv1.FailJobSet:
		d.fail("FailJobSetFailurePolicyAction", withJob("applying FailJobSet failure policy action", job))
	case jobsetv1.RestartJobSet:
		if d.Status.RestartsCountTowardsMax >= policy.MaxRestarts {
			d.fail("ReachedMaxRestarts", withJob("jobset failed due to reaching max number of restarts", job))
			return
		}
		if d.restart(string(action), reason, job) {
			d.Status.RestartsCountTowardsMax++
		}
	case jobsetv1.RestartJobSetAndIgnoreMaxRestarts:
		d.restart(string(action), reason, job)
	default: // those behind gates, in a JobSet that was stored before they were refused
		d.fail("FailJobSetFailurePolicyAction", withJob(fmt.Sprintf("jobd does not have the action %s", action), job))
	}
}

// failed returns the Jobs that have failed, the earliest first.
func (d *decision) failed() (all []*Job) {
	for _, g := range d.r.groups {
		for _, j := range g.failed {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *Job) int { return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.Name, b.Name)) })
	return all
}

// match returns the first rule that applies to a Job, and the earliest Job that it applies to.
func match(rules []jobsetv1.FailurePolicyRule, failed []*Job) (*jobsetv1.FailurePolicyRule, *Job) {
	failed = failed[:min(len(failed), mostCompared)]
	for i := range rules {
		rule := &rules[i]
		var patterns []*regexp.Regexp
		for _, pattern := range rule.OnJobFailureMessagePatterns {
			if compiled, err := regexp.Compile(pattern); err == nil {
				patterns = append(patterns, compiled)
			}
		}
		for _, j := range failed {
			if (len(rule.OnJobFailureReasons) == 0 || slices.Contains(rule.OnJobFailureReasons, j.reason)) &&
				(len(rule.OnJobFailureMessagePatterns) == 0 ||
					slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(j.message) })) &&
				j.Group != "" && (len(rule.TargetReplicatedJobs) == 0 || slices.Contains(rule.TargetReplicatedJobs, j.Group)) {
				return rule, j
			}
		}
	}
	return nil, nil
}

// restart begins another attempt, unless it is too soon: the Jobs of this one are to be deleted.
func (d *decision) restart(action, reason string, job *Job) bool {
	if at := jobset.NextAttempt(d.Status.Restarts, d.r.began()); at.After(d.now) {
		d.Wake = at
		return false
	}
	message := withJob(fmt.Sprintf("applying %s failure policy action", action), job)
	d.Status.Restarts++
	d.set(warning, jobsetv1.JobSetRestarting, metav1.ConditionTrue, reason, message)
	d.event(warning, action+"FailurePolicyAction", message)
	d.More = true
	return true
}

func withJob(message string, first *Job) string {
	return fmt.Sprintf("%s (first failed job: %s)", message, first.Name)
}
