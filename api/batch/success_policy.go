package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/indexes"
)

// Limits of JobSpec.SuccessPolicy.
const (
	maxSuccessRules           = 20
	maxSucceededIndexesLength = 64 << 10
)

func validateSuccessPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if !isIndexed(spec) {
		return field.ErrorList{field.Invalid(path, printedSuccessPolicy(spec.SuccessPolicy), needsIndexed)}
	}
	var errs field.ErrorList
	path = path.Child("rules")
	rules := spec.SuccessPolicy.Rules
	switch n := len(rules); {
	case n == 0:
		errs = append(errs, field.Required(path,
			"at least one rules must be specified when the successPolicy is specified"))
	case n > maxSuccessRules:
		errs = append(errs, field.TooMany(path, n, maxSuccessRules))
	}
	for i := range rules {
		errs = append(errs, validateSuccessRule(&rules[i], ptr.Deref(spec.Completions, 0), path.Index(i))...)
	}
	return errs
}

func validateSuccessRule(rule *batchv1.SuccessPolicyRule, completions int32, path *field.Path) field.ErrorList {
	if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
		return field.ErrorList{field.Required(path,
			"at least one of succeededCount or succeededIndexes must be specified")}
	}
	var errs field.ErrorList
	named := int64(0)
	if rule.SucceededIndexes != nil {
		path, list := path.Child("succeededIndexes"), *rule.SucceededIndexes
		if len(list) > maxSucceededIndexesLength {
			errs = append(errs, field.TooLong(path, list, maxSucceededIndexesLength))
		}
		intervals, err := indexes.Parse(list, completions)
		if err != nil {
			errs = append(errs, field.Invalid(path, list, "error parsing succeededIndexes: "+err.Error()))
		}
		named = indexes.Count(intervals)
	}
	if count := rule.SucceededCount; count != nil {
		path := path.Child("succeededCount")
		errs = append(errs, validation.ValidateNonnegativeField(int64(*count), path)...)
		if *count > completions {
			errs = append(errs, field.Invalid(path, *count,
				fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
		}
		if rule.SucceededIndexes != nil && int64(*count) > named {
			errs = append(errs, field.Invalid(path, *count,
				fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", named)))
		}
	}
	return errs
}

// printedSuccessPolicy returns a policy in the form in which a cluster prints it in an error: with the names of the Go
// fields, including those that are not set.
func printedSuccessPolicy(policy *batchv1.SuccessPolicy) any {
	if policy == nil {
		return nil
	}
	type rule struct {
		SucceededIndexes *string
		SucceededCount   *int32
	}
	var printed struct{ Rules []rule }
	if policy.Rules != nil {
		printed.Rules = []rule{} // a cluster prints null for no list, [] for an empty one
	}
	for _, r := range policy.Rules {
		printed.Rules = append(printed.Rules, rule(r))
	}
	return printed
}
