package batch

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/duration"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/schedule"
)

// maxCronJobName leaves room for the suffix of 11 characters in the names of its Jobs.
const maxCronJobName = utilvalidation.DNS1035LabelMaxLength - 11

// maxSchedule is how long a schedule may be, which is read again with each decision. One that names every minute, hour and
// day takes less than 400 characters.
const maxSchedule = 1000

// setCronJobDefaults fills in what a CronJob's manifest left out. Of the Job's spec it sets only the defaults of the
// pod template; the others are set when the Job is created.
func setCronJobDefaults(cj *batchv1.CronJob) {
	spec := &cj.Spec
	if spec.ConcurrencyPolicy == "" {
		spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	setDefault(&spec.Suspend, false)
	setDefault(&spec.SuccessfulJobsHistoryLimit, 3)
	setDefault(&spec.FailedJobsHistoryLimit, 1)
	setPodConditionDefaults(spec.JobTemplate.Spec.PodFailurePolicy)
	core.SetPodTemplateDefaults(&spec.JobTemplate.Spec.Template)
}

// prepareCronJob brings a new CronJob into the form that is stored: generation 1, no status.
func prepareCronJob(cj *batchv1.CronJob) {
	cj.Generation = 1
	cj.Status = batchv1.CronJobStatus{}
}

// prepareCronJobUpdate keeps the status, which has a subresource of its own, and counts the generation.
func prepareCronJobUpdate(cj, old *batchv1.CronJob) {
	cj.Status = old.Status
	cj.Generation = old.Generation
	if !equality.Semantic.DeepEqual(cj.Spec, old.Spec) {
		cj.Generation++
	}
}

// prepareCronJobStatusUpdate keeps the spec.
func prepareCronJobStatusUpdate(cj, old *batchv1.CronJob) {
	cj.Spec = old.Spec
	cj.Generation = old.Generation
}

// validateCronJob checks a new CronJob.
func validateCronJob(cj *batchv1.CronJob) field.ErrorList {
	metadata := field.NewPath("metadata")
	errs := validation.ValidateObjectMeta(&cj.ObjectMeta, true, validation.NameIsDNSSubdomain, metadata)
	errs = append(errs, validateCronJobTimes(cj, nil)...)
	errs = append(errs, notices.Validate(cj.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validateCronJobSpec(&cj.Spec, nil, field.NewPath("spec"))...)
	errs = append(errs, core.CheckTemplateSize(&cj.Spec.JobTemplate.Spec.Template,
		field.NewPath("spec", "jobTemplate", "spec", "template"))...)
	if len(cj.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(metadata.Child("name"), cj.Name,
			fmt.Sprintf("must be no more than %d characters", maxCronJobName)))
	}
	return errs
}

// validateCronJobUpdate checks a changed CronJob. Values that were accepted before and have not changed are not checked
// again: its name, its time zone, a time zone in its schedule.
func validateCronJobUpdate(cj, old *batchv1.CronJob) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&cj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateCronJobTimes(cj, old)...)
	errs = append(errs, notices.Validate(cj.Annotations, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, validateCronJobSpec(&cj.Spec, &old.Spec, field.NewPath("spec"))...)
	return append(errs, core.CheckTemplateGrowth(&cj.Spec.JobTemplate.Spec.Template, &old.Spec.JobTemplate.Spec.Template,
		field.NewPath("spec", "jobTemplate", "spec", "template"))...)
}

// validateCronJobStatusUpdate checks a write of the status.
func validateCronJobStatusUpdate(cj, old *batchv1.CronJob) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&cj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateCronJobTimes(cj, old)...)
}

func validateCronJobSpec(spec, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	errs := validateSchedule(spec, old, path.Child("schedule"))
	if spec.StartingDeadlineSeconds != nil {
		errs = append(errs, validation.ValidateNonnegativeField(*spec.StartingDeadlineSeconds,
			path.Child("startingDeadlineSeconds"))...)
	}
	if old == nil || !ptr.Equal(old.TimeZone, spec.TimeZone) {
		errs = append(errs, validateTimeZone(spec.TimeZone, path.Child("timeZone"))...)
	}
	if policy := path.Child("concurrencyPolicy"); spec.ConcurrencyPolicy == "" {
		errs = append(errs, field.Required(policy, ""))
	} else {
		errs = append(errs, oneOf(policy, spec.ConcurrencyPolicy, []batchv1.ConcurrencyPolicy{
			batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent})...)
	}
	template, at := &spec.JobTemplate.Spec, path.Child("jobTemplate", "spec")
	errs = append(errs, ValidateJobSpec(template, at)...)
	annotations := path.Child("jobTemplate", "metadata", "annotations")
	errs = append(errs, validateBackoffAnnotations(spec.JobTemplate.Annotations, annotations)...)
	errs = append(errs, validatePrioritized(spec.JobTemplate.Annotations, nil, annotations)...)
	errs = append(errs, ValidatePaused(spec.JobTemplate.Annotations, nil, annotations)...)
	errs = append(errs, validateOOMMemory(spec.JobTemplate.Annotations, template, annotations)...)
	errs = append(errs, validateIndexEnv(spec.JobTemplate.Annotations, template, annotations)...)
	errs = append(errs, validateArray(spec.JobTemplate.Annotations, template, annotations)...)
	errs = append(errs, validateAfter(spec.JobTemplate.Annotations, template, false, annotations)...)
	errs = append(errs, validateNoStartAt(spec.JobTemplate.Annotations, annotations)...)
	errs = append(errs, core.ValidateConcurrency(spec.JobTemplate.Annotations, annotations, false)...)
	errs = append(errs, core.ValidateWindow(spec.JobTemplate.Annotations, annotations)...)
	errs = append(errs, core.ValidatePreemptBy(spec.JobTemplate.Annotations, annotations)...)
	errs = append(errs, validateKeepLogs(spec.JobTemplate.Annotations, annotations)...)
	errs = append(errs, validateOverflow(spec.JobTemplate.Annotations, &spec.JobTemplate.Spec, annotations)...)
	errs = append(errs, notices.Validate(spec.JobTemplate.Annotations, annotations)...)
	if template.Selector != nil {
		errs = append(errs, field.Invalid(at.Child("selector"), template.Selector, "`selector` will be auto-generated"))
	}
	if ptr.Deref(template.ManualSelector, false) {
		errs = append(errs, field.NotSupported(at.Child("manualSelector"), template.ManualSelector,
			[]string{"nil", "false"}))
	}
	for _, limit := range []struct {
		name  string
		value *int32
	}{
		{"successfulJobsHistoryLimit", spec.SuccessfulJobsHistoryLimit},
		{"failedJobsHistoryLimit", spec.FailedJobsHistoryLimit},
	} {
		if limit.value != nil {
			errs = append(errs, validation.ValidateNonnegativeField(int64(*limit.value), path.Child(limit.name))...)
		}
	}
	return errs
}

func validateSchedule(spec, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	if spec.Schedule == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(spec.Schedule) > maxSchedule && (old == nil || old.Schedule != spec.Schedule) {
		return field.ErrorList{field.TooLong(path, "", maxSchedule)}
	}
	zoneAllowed := old != nil && strings.Contains(old.Schedule, "TZ")
	var errs field.ErrorList
	if _, err := schedule.Parse(spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(path, spec.Schedule, err.Error()))
	}
	switch hasZone := strings.Contains(spec.Schedule, "TZ"); {
	case hasZone && zoneAllowed && spec.TimeZone != nil:
		errs = append(errs, field.Invalid(path, spec.Schedule,
			"cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	case hasZone && !zoneAllowed:
		errs = append(errs, field.Invalid(path, spec.Schedule,
			"cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	}
	return errs
}

// zonePart matches one part of the path of a time zone's file.
var zonePart = regexp.MustCompile(`^[A-Za-z._+0-9][A-Za-z._+0-9-]{0,13}$`)

func validateTimeZone(zone *string, path *field.Path) field.ErrorList {
	if zone == nil {
		return nil
	}
	if *zone == "" {
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	}
	for _, part := range strings.Split(*zone, "/") {
		if part == "." || part == ".." || !zonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(path, zone, "unknown time zone "+*zone)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(*zone, "Local") {
		errs = append(errs, field.Invalid(path, zone,
			"timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(*zone); err != nil {
		errs = append(errs, field.Invalid(path, zone, err.Error()))
	}
	return errs
}

// cronJobWarnings returns the warnings that are sent with the response to the creation of a CronJob.
func cronJobWarnings(cj *batchv1.CronJob) []string {
	return append(append(nameWarnings(cj.Name), missedWarnings(cj)...), cronJobSpecWarnings(&cj.Spec)...)
}

// cronJobUpdateWarnings are sent along with the answer to an update that changes the spec, or what becomes of missed times.
func cronJobUpdateWarnings(cj, old *batchv1.CronJob) (warnings []string) {
	if now := missedWarnings(cj); !slices.Equal(now, missedWarnings(old)) {
		warnings = now
	}
	if cj.Generation == old.Generation {
		return warnings
	}
	return append(warnings, cronJobSpecWarnings(&cj.Spec)...)
}

// ranges are the fields of a schedule with what they begin with and how many values they have.
var ranges = []struct {
	name        string
	first, size int
}{{"minute", 0, 60}, {"hour", 0, 24}, {"day of the month", 1, 31}, {"month", 1, 12}, {"day of the week", 0, 7}}

// scheduleWarnings are about a schedule that means less than it seems to: one without any time, and one with a step that leaves its range.
func scheduleWarnings(text string) (warnings []string) {
	s, err := schedule.Parse(text)
	if err != nil {
		return nil
	}
	// Whether there is a day such as February 30 does not depend on when one begins to look for it: five years have a leap year.
	if s.Next(time.Unix(0, 0).UTC()).IsZero() {
		warnings = append(warnings, fmt.Sprintf("spec.schedule: %q is no time that comes within five years: it starts no Job", text))
	}
	fields := strings.Fields(text)
	if len(fields) != len(ranges) {
		return warnings
	}
	for i, r := range ranges {
		step, isStep := strings.CutPrefix(fields[i], "*/")
		if n, err := strconv.Atoi(step); isStep && err == nil && n >= r.size {
			warnings = append(warnings, fmt.Sprintf("spec.schedule: the %s %s is %d alone: a step begins anew with each range of %d to %d",
				r.name, fields[i], r.first, r.first, r.first+r.size-1))
		}
	}
	return warnings
}

func cronJobSpecWarnings(spec *batchv1.CronJobSpec) []string {
	template, path := &spec.JobTemplate, field.NewPath("spec", "jobTemplate")
	warnings := kueueWarnings(&template.ObjectMeta, &template.Spec, path.Child("metadata"))
	warnings = append(warnings, oomWarnings(template.Annotations, &template.Spec, path.Child("metadata", "annotations"))...)
	warnings = append(warnings, jobSpecWarnings(&template.Spec, path.Child("spec"))...)
	if strings.Contains(spec.Schedule, "TZ") {
		warnings = append(warnings, "spec.schedule: cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	}
	warnings = append(warnings, scheduleWarnings(spec.Schedule)...)
	if s, err := schedule.Parse(spec.Schedule); err == nil && s.Every() > 0 && s.Every() < time.Minute {
		warnings = append(warnings, fmt.Sprintf(
			"spec.schedule: %q is taken as every %v, and no more than one Job a minute is started: the name of a Job contains the minute",
			spec.Schedule, s.Every()))
	}
	return warnings
}

// cronJobTable is what kubectl prints of CronJobs.
func cronJobTable() kind.Columns[*batchv1.CronJob] {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return append(kind.Columns[*batchv1.CronJob]{
		kind.NameColumn[*batchv1.CronJob](),
		{Name: "Schedule", Description: spec["schedule"], Cell: func(cj *batchv1.CronJob, _ time.Time) any { return cj.Spec.Schedule }},
		{Name: "Timezone", Description: spec["timeZone"],
			Cell: func(cj *batchv1.CronJob, _ time.Time) any { return ptr.Deref(cj.Spec.TimeZone, "<none>") }},
		{Name: "Suspend", Type: "boolean", Description: spec["suspend"],
			Cell: func(cj *batchv1.CronJob, _ time.Time) any { return suspended(cj) }},
		{Name: "Active", Type: "integer", Description: status["active"],
			Cell: func(cj *batchv1.CronJob, _ time.Time) any { return int64(len(cj.Status.Active)) }},
		{Name: "Last Schedule", Description: status["lastScheduleTime"],
			Cell: func(cj *batchv1.CronJob, now time.Time) any { return lastSchedule(cj, now) }},
		kind.AgeColumn[*batchv1.CronJob](),
		{Name: "Last Success", Description: status["lastSuccessfulTime"] + " Overdue: it is longer ago than " + notices.EveryAnnotation + " says.",
			Cell: func(cj *batchv1.CronJob, now time.Time) any { return lastSuccess(cj, now) }},
	}, append(templateColumns(func(cj *batchv1.CronJob) *batchv1.JobSpec { return &cj.Spec.JobTemplate.Spec }), kind.Column[*batchv1.CronJob]{
		Name: "Next Start", Priority: 1, Description: "How long it is until the CronJob starts its next Job.",
		Cell: func(cj *batchv1.CronJob, now time.Time) any { return nextStart(cj, now) },
	})...)
}

func suspended(cj *batchv1.CronJob) string {
	if cj.Spec.Suspend == nil {
		return "<unset>"
	}
	return map[bool]string{true: "True", false: "False"}[*cj.Spec.Suspend]
}

func nextStart(cj *batchv1.CronJob, now time.Time) string {
	if ptr.Deref(cj.Spec.Suspend, false) || cj.DeletionTimestamp != nil {
		return "<none>"
	}
	next := NextStart(cj, now)
	if next.IsZero() {
		return "<none>"
	}
	return duration.HumanDuration(next.Sub(now))
}

// lastSuccess is how long ago a Job was last complete, and whether the next is overdue. It is the last of the columns that are
// always shown, since programs know where those of a cluster are.
func lastSuccess(cj *batchv1.CronJob, now time.Time) string {
	cell := "<none>"
	if cj.Status.LastSuccessfulTime != nil {
		cell = kind.Age(*cj.Status.LastSuccessfulTime, now)
	}
	if notices.Expect(cj.Annotations, cj.CreationTimestamp, cj.Status.LastSuccessfulTime, now).Overdue {
		cell += " (overdue)"
	}
	return cell
}

func lastSchedule(cj *batchv1.CronJob, now time.Time) string {
	if cj.Status.LastScheduleTime == nil {
		return "<none>"
	}
	return kind.Age(*cj.Status.LastScheduleTime, now)
}
