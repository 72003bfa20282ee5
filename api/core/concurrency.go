package core

import (
	"fmt"
	"slices"
	"strconv"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// ConcurrencyGroupAnnotation of a Job names a group in its namespace of which only some Jobs run at a time. Of a namespace it is the
	// group of all its Jobs that name none. It means nothing to a cluster.
	ConcurrencyGroupAnnotation = "jobd.dev/concurrency-group"
	// ConcurrencyLimitAnnotation is how many run at a time, 1 without it. Where those of a group differ, the smallest counts of the Job
	// that is to start and those that run. A namespace that has it has a group of its own name, unless it names one.
	ConcurrencyLimitAnnotation = "jobd.dev/concurrency-limit"
	// ConcurrencyPolicyAnnotation is what becomes of a Job for which there is no place: QueueConcurrent without it.
	ConcurrencyPolicyAnnotation = "jobd.dev/concurrency-policy"

	// maxConcurrencyLimit bounds how many Jobs a decision about a group looks at.
	maxConcurrencyLimit = 1000
)

// Policies of a concurrency group. The words are those of CronJobs.
const (
	QueueConcurrent   = "Queue"   // it waits for a place
	ReplaceConcurrent = "Replace" // the oldest one that runs ends as failed, and makes place
	ForbidConcurrent  = "Forbid"  // it ends as failed at once
)

// Concurrency is the group of a Job.
type Concurrency struct {
	Group  string
	Limit  int
	Policy string
}

// ConcurrencyOf returns the group that annotations of a Job name; false if they name none, or are not valid.
func ConcurrencyOf(annotations map[string]string) (Concurrency, bool) {
	c := Concurrency{Group: annotations[ConcurrencyGroupAnnotation], Limit: 1, Policy: QueueConcurrent}
	if c.Group == "" {
		return Concurrency{}, false
	}
	if text, ok := annotations[ConcurrencyLimitAnnotation]; ok {
		limit, err := concurrencyLimit(text)
		if err != nil {
			return Concurrency{}, false
		}
		c.Limit = limit
	}
	if policy, ok := annotations[ConcurrencyPolicyAnnotation]; ok {
		c.Policy = policy
	}
	return c, slices.Contains(concurrencyPolicies, c.Policy) && len(utilvalidation.IsDNS1123Label(c.Group)) == 0
}

// NamespaceConcurrency returns the group of the Jobs of a namespace that name none; false if there is none.
func NamespaceConcurrency(name string, annotations map[string]string) (Concurrency, bool) {
	_, limited := annotations[ConcurrencyLimitAnnotation]
	if annotations[ConcurrencyGroupAnnotation] != "" || !limited {
		return ConcurrencyOf(annotations)
	}
	return ConcurrencyOf(map[string]string{
		ConcurrencyGroupAnnotation: name, ConcurrencyLimitAnnotation: annotations[ConcurrencyLimitAnnotation],
		ConcurrencyPolicyAnnotation: policyOr(annotations),
	})
}

func policyOr(annotations map[string]string) string {
	if policy, ok := annotations[ConcurrencyPolicyAnnotation]; ok {
		return policy
	}
	return QueueConcurrent
}

var concurrencyPolicies = []string{QueueConcurrent, ReplaceConcurrent, ForbidConcurrent}

func concurrencyLimit(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxConcurrencyLimit {
		return 0, fmt.Errorf("must be a number from 1 to %d", maxConcurrencyLimit)
	}
	return n, nil
}

// ValidateConcurrency checks the annotations of a Job, of the Jobs of a CronJob, or of a namespace, where the limit is enough.
func ValidateConcurrency(annotations map[string]string, path *field.Path, ofNamespace bool) (errs field.ErrorList) {
	group, named := annotations[ConcurrencyGroupAnnotation]
	limit, limited := annotations[ConcurrencyLimitAnnotation]
	policy, ruled := annotations[ConcurrencyPolicyAnnotation]
	if named {
		for _, wrong := range utilvalidation.IsDNS1123Label(group) {
			errs = append(errs, field.Invalid(path.Key(ConcurrencyGroupAnnotation), group, wrong))
		}
	}
	if limited {
		if _, err := concurrencyLimit(limit); err != nil {
			errs = append(errs, field.Invalid(path.Key(ConcurrencyLimitAnnotation), limit, err.Error()))
		}
	}
	if ruled && !slices.Contains(concurrencyPolicies, policy) {
		errs = append(errs, field.NotSupported(path.Key(ConcurrencyPolicyAnnotation), policy, concurrencyPolicies))
	}
	if !named && (limited && !ofNamespace || ruled && !limited) {
		errs = append(errs, field.Required(path.Key(ConcurrencyGroupAnnotation), "says of which group"))
	}
	return errs
}
