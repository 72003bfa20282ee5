package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/indexes"
)

// End returns the condition that a Job has finished with, Complete or Failed, and nil while it has not.
func End(s *batchv1.JobStatus) *batchv1.JobCondition {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) &&
			c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// validateJobStatusUpdate checks a changed status, such as that of a Job which another controller manages
// (JobSpec.ManagedBy): the status has to be consistent, and nothing that is final may change.
func validateJobStatusUpdate(job, old *batchv1.Job) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&job.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status")
	errs = append(errs, validateCounters(&job.Status, path)...)
	errs = append(errs, validateUncounted(job.Status.UncountedTerminatedPods, path.Child("uncountedTerminatedPods"))...)
	errs = append(errs, validateFinish(job, old, path)...)
	errs = append(errs, validateIndexLists(job, old, path)...)
	errs = append(errs, validateAgreement(job, old, path)...)
	return append(errs, validateTransition(job, old, path)...)
}

func validateCounters(s *batchv1.JobStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, counter := range []struct {
		name  string
		value int32
	}{
		{"active", s.Active},
		{"succeeded", s.Succeeded},
		{"failed", s.Failed},
		{"ready", ptr.Deref(s.Ready, 0)},
		{"terminating", ptr.Deref(s.Terminating, 0)},
	} {
		errs = append(errs, validation.ValidateNonnegativeField(int64(counter.value), path.Child(counter.name))...)
	}
	return errs
}

func validateUncounted(u *batchv1.UncountedTerminatedPods, path *field.Path) field.ErrorList {
	if u == nil {
		return nil
	}
	var errs field.ErrorList
	seen := map[types.UID]bool{}
	check := func(uids []types.UID, path *field.Path) {
		for i, uid := range uids {
			switch {
			case uid == "":
				errs = append(errs, field.Invalid(path.Index(i), uid, "must not be empty"))
			case seen[uid]:
				errs = append(errs, field.Duplicate(path.Index(i), uid))
			}
			seen[uid] = true
		}
	}
	check(u.Succeeded, path.Child("succeeded"))
	check(u.Failed, path.Child("failed"))
	return errs
}

// validateFinish checks what a Complete or Failed condition requires and excludes. Each rule is checked only when a
// field that it concerns changes, so that a stored violation does not fail other writes.
func validateFinish(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	s, was := &job.Status, &old.Status
	is := func(t batchv1.JobConditionType) bool { return ConditionTrue(s.Conditions, t) }
	changes := func(t batchv1.JobConditionType) bool { return is(t) != ConditionTrue(was.Conditions, t) }
	complete, failed := is(batchv1.JobComplete), is(batchv1.JobFailed)
	finished := complete || failed
	finishes := finished != (ConditionTrue(was.Conditions, batchv1.JobComplete) ||
		ConditionTrue(was.Conditions, batchv1.JobFailed))
	startChanges, endChanges := !s.StartTime.Equal(was.StartTime), !s.CompletionTime.Equal(was.CompletionTime)

	var errs field.ErrorList
	conditions := func(wrong bool, detail string) {
		if wrong {
			errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{}, detail))
		}
	}
	conditions((changes(batchv1.JobComplete) || changes(batchv1.JobFailed)) && complete && failed,
		"cannot set Complete=True and Failed=true conditions")
	conditions((changes(batchv1.JobComplete) || changes(batchv1.JobFailureTarget)) && complete &&
		is(batchv1.JobFailureTarget),
		"cannot set Complete=True and FailureTarget=true conditions")
	switch at := path.Child("completionTime"); {
	case !changes(batchv1.JobComplete) && !endChanges:
	case s.CompletionTime != nil && !complete:
		errs = append(errs, field.Invalid(at, s.CompletionTime,
			"cannot set completionTime when there is no Complete=True condition"))
	case s.CompletionTime == nil && complete:
		errs = append(errs, field.Required(at, "completionTime is required for Complete jobs"))
	}
	if (startChanges || endChanges) && s.StartTime != nil && s.CompletionTime != nil &&
		s.CompletionTime.Before(s.StartTime) {
		errs = append(errs, field.Invalid(path.Child("completionTime"), s.CompletionTime,
			"must be equal to or after `startTime`"))
	}
	conditions((changes(batchv1.JobFailed) || !ptr.Equal(s.FailedIndexes, was.FailedIndexes)) && failed &&
		!is(batchv1.JobFailureTarget),
		"cannot set Failed=True condition without the FailureTarget=true condition")
	conditions((changes(batchv1.JobComplete) || changes(batchv1.JobSuccessCriteriaMet)) && complete &&
		!is(batchv1.JobSuccessCriteriaMet),
		"cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	if !finished {
		return errs
	}
	if (finishes || s.Active != was.Active) && s.Active > 0 {
		errs = append(errs, field.Invalid(path.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	// A Job of 0 completions completes while it is suspended, without ever having started.
	wantsNothing := ptr.Deref(job.Spec.Suspend, false) && ptr.Deref(job.Spec.Completions, -1) == 0
	if (finishes || startChanges) && s.StartTime == nil && !wantsNothing {
		errs = append(errs, field.Required(path.Child("startTime"), "startTime is required for finished job"))
	}
	uncountedChange := !equality.Semantic.DeepEqual(s.UncountedTerminatedPods, was.UncountedTerminatedPods)
	if u := s.UncountedTerminatedPods; (finishes || uncountedChange) && u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		errs = append(errs, field.Invalid(path.Child("uncountedTerminatedPods"), u, "must be empty for finished job"))
	}
	return errs
}

// validateIndexLists checks completedIndexes and failedIndexes when they change: after the Job was scaled down they
// hold indexes that are too high until the controller has removed them.
func validateIndexLists(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	s := &job.Status
	completedChanged := s.CompletedIndexes != old.Status.CompletedIndexes
	failedChanged := !ptr.Equal(s.FailedIndexes, old.Status.FailedIndexes)

	var errs field.ErrorList
	invalid := func(name, value, detail string) {
		errs = append(errs, field.Invalid(path.Child(name), value, detail))
	}
	perIndex := job.Spec.BackoffLimitPerIndex != nil
	var completed, failed []indexes.Interval
	if job.Spec.Completions != nil {
		var err error
		completed, err = indexes.Parse(s.CompletedIndexes, *job.Spec.Completions)
		if err != nil && completedChanged {
			invalid("completedIndexes", s.CompletedIndexes, "error parsing completedIndexes: "+err.Error())
		}
		failed, err = indexes.Parse(ptr.Deref(s.FailedIndexes, ""), *job.Spec.Completions)
		if err != nil && failedChanged && perIndex {
			invalid("failedIndexes", *s.FailedIndexes, "error parsing failedIndexes: "+err.Error())
		}
	}
	if completedChanged && s.CompletedIndexes != "" && !isIndexed(&job.Spec) {
		invalid("completedIndexes", s.CompletedIndexes,
			"cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failedChanged && s.FailedIndexes != nil && !perIndex {
		invalid("failedIndexes", *s.FailedIndexes,
			"cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if index, ok := indexes.FirstCommon(completed, failed); ok && (completedChanged || failedChanged) {
		invalid("failedIndexes", *s.FailedIndexes,
			fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", index))
	}
	return errs
}

// validateAgreement checks that the fields of a status do not contradict each other.
func validateAgreement(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	s, was := &job.Status, &old.Status
	is := func(t batchv1.JobConditionType) bool { return ConditionTrue(s.Conditions, t) }
	finished := is(batchv1.JobComplete) || is(batchv1.JobFailed)
	finishes := finished != (ConditionTrue(was.Conditions, batchv1.JobComplete) ||
		ConditionTrue(was.Conditions, batchv1.JobFailed))
	var errs field.ErrorList
	if n := ptr.Deref(s.Terminating, 0); (finishes || !ptr.Equal(s.Terminating, was.Terminating)) && n > 0 && finished {
		errs = append(errs, field.Invalid(path.Child("terminating"), n, "terminating>0 is invalid for finished job"))
	}
	if (!ptr.Equal(s.Ready, was.Ready) || s.Active != was.Active) && s.Ready != nil && *s.Ready > s.Active {
		errs = append(errs, field.Invalid(path.Child("ready"), *s.Ready, "cannot set more ready pods than active"))
	}
	for _, other := range [...]batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobFailureTarget} {
		if is(batchv1.JobSuccessCriteriaMet) && is(other) {
			errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{},
				fmt.Sprintf("cannot set SuccessCriteriaMet=True and %s=true conditions", other)))
		}
	}
	return errs
}

// validateTransition checks that fields of the status which are final do not change.
func validateTransition(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	s, was := &job.Status, &old.Status
	lost := func(t batchv1.JobConditionType) bool {
		return ConditionTrue(was.Conditions, t) && !ConditionTrue(s.Conditions, t)
	}
	var errs field.ErrorList
	for _, t := range [...]batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if lost(t) {
			errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{},
				fmt.Sprintf("cannot disable the terminal %s=True condition", t)))
		}
	}
	if s.Failed < was.Failed {
		errs = append(errs, field.Invalid(path.Child("failed"), s.Failed, "cannot decrease the failed counter"))
	}
	if s.Succeeded < was.Succeeded && !elastic(&job.Spec) {
		errs = append(errs, field.Invalid(path.Child("succeeded"), s.Succeeded,
			"cannot decrease the succeeded counter"))
	}
	if s.CompletionTime != nil && was.CompletionTime != nil {
		errs = append(errs, validation.ValidateImmutableField(s.CompletionTime, was.CompletionTime,
			path.Child("completionTime"))...)
	}
	if was.StartTime != nil && !was.StartTime.Equal(s.StartTime) && !ptr.Deref(job.Spec.Suspend, false) &&
		!resumed(job, old) {
		errs = append(errs, field.Invalid(path.Child("startTime"), s.StartTime,
			"field is immutable for unsuspended job once set"))
	}
	if lost(batchv1.JobSuccessCriteriaMet) {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{},
			"cannot disable the SuccessCriteriaMet=True condition"))
	}
	if ConditionTrue(was.Conditions, batchv1.JobComplete) &&
		!ConditionTrue(was.Conditions, batchv1.JobSuccessCriteriaMet) &&
		ConditionTrue(s.Conditions, batchv1.JobSuccessCriteriaMet) {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{},
			"cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"))
	}
	return errs
}

// elastic reports whether a Job is elastic: elastic Jobs can be scaled down, and then lose indexes that have succeeded.
func elastic(spec *batchv1.JobSpec) bool {
	return isIndexed(spec) && ptr.Equal(spec.Completions, spec.Parallelism)
}

// resumed reports whether this write removes the Suspended condition: the Job then starts anew.
func resumed(job, old *batchv1.Job) bool {
	return ConditionTrue(old.Status.Conditions, batchv1.JobSuspended) &&
		!ConditionTrue(job.Status.Conditions, batchv1.JobSuspended)
}
