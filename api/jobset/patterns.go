package jobset

import (
	"fmt"
	"regexp/syntax"

	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// maxProgram bounds the patterns of a failure policy together: how many steps they may take for each character of the message of a
// Job that has failed. A pattern without repetitions takes no more than it has characters; a{1000} takes a thousand.
const maxProgram = 5000

// programOf returns how many steps a pattern may take for each character that is compared, more than maxProgram for very many. One that
// is no pattern takes none: it matches nothing, as in a cluster.
func programOf(pattern string) int {
	if len(pattern) > maxProgram {
		return len(pattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return stepsOf(parsed)
}

func stepsOf(re *syntax.Regexp) int {
	steps := 1
	if re.Op == syntax.OpLiteral || re.Op == syntax.OpCharClass {
		steps = len(re.Rune)
	}
	for _, sub := range re.Sub {
		steps += stepsOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		steps *= max(1, re.Min, re.Max)
	}
	return min(steps, 2*maxProgram) // without overflow
}

// warnings are sent along with the answer to the creation of a JobSet.
func warnings(js *jobsetv1.JobSet) (all []string) {
	exclusive := "the Jobs of one node share it: exclusive placement means nothing here"
	if _, ok := js.Annotations[jobsetv1.ExclusiveKey]; ok {
		all = append(all, fmt.Sprintf("metadata.annotations[%s]: %s", jobsetv1.ExclusiveKey, exclusive))
	}
	for i := range js.Spec.ReplicatedJobs {
		if _, ok := js.Spec.ReplicatedJobs[i].Template.Annotations[jobsetv1.ExclusiveKey]; ok {
			all = append(all, fmt.Sprintf("spec.replicatedJobs[%d].template.metadata.annotations[%s]: %s", i, jobsetv1.ExclusiveKey, exclusive))
		}
	}
	if policy := js.Spec.FailurePolicy; policy != nil {
		for i := range policy.Rules {
			for k, pattern := range policy.Rules[i].OnJobFailureMessagePatterns {
				if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
					all = append(all, fmt.Sprintf("spec.failurePolicy.rules[%d].onJobFailureMessagePatterns[%d]: matches nothing: %v", i, k, err))
				}
			}
		}
	}
	all = append(all, gangWarnings(js)...)
	if !Managed(js) {
		all = append(all, fmt.Sprintf("spec.managedBy: jobd does nothing for this JobSet, which %q is to act for", *js.Spec.ManagedBy))
	}
	return all
}
