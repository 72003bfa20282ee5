package batch

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
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
	errs = append(errs, validateCronJobSpec(&cj.Spec, nil, field.NewPath("spec"))...)
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
	return append(errs, validateCronJobSpec(&cj.Spec, &old.Spec, field.NewPath("spec"))...)
}

// validateCronJobStatusUpdate checks a write of the status.
func validateCronJobStatusUpdate(cj, old *batchv1.CronJob) field.ErrorList {
	return validation.ValidateObjectMetaUpdate(&cj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
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
	errs = append(errs, validateJobSpec(template, at)...)
	annotations := path.Child("jobTemplate", "metadata", "annotations")
	errs = append(errs, validateBackoffAnnotations(spec.JobTemplate.Annotations, annotations)...)
	errs = append(errs, validatePrioritized(spec.JobTemplate.Annotations, nil, annotations)...)
	errs = append(errs, validateOOMMemory(spec.JobTemplate.Annotations, template, annotations)...)
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
	return append(nameWarnings(cj.Name), cronJobSpecWarnings(&cj.Spec)...)
}

// cronJobUpdateWarnings are sent along with the answer to an update that changes the spec.
func cronJobUpdateWarnings(cj, old *batchv1.CronJob) []string {
	if cj.Generation == old.Generation {
		return nil
	}
	return cronJobSpecWarnings(&cj.Spec)
}

func cronJobSpecWarnings(spec *batchv1.CronJobSpec) []string {
	template, path := &spec.JobTemplate, field.NewPath("spec", "jobTemplate")
	warnings := kueueWarnings(template.Labels, &template.Spec, path.Child("metadata"))
	warnings = append(warnings, oomWarnings(template.Annotations, &template.Spec, path.Child("metadata", "annotations"))...)
	warnings = append(warnings, jobSpecWarnings(&template.Spec, path.Child("spec"))...)
	if strings.Contains(spec.Schedule, "TZ") {
		warnings = append(warnings, "spec.schedule: cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	}
	if s, err := schedule.Parse(spec.Schedule); err == nil && s.Every() > 0 && s.Every() < time.Minute {
		warnings = append(warnings, fmt.Sprintf(
			"spec.schedule: %q is taken as every %v, and no more than one Job a minute is started: the name of a Job contains the minute",
			spec.Schedule, s.Every()))
	}
	return warnings
}

// cronJobColumns returns the columns of the table that kubectl prints for CronJobs; columns of priority 1 are shown
// with -o wide.
func cronJobColumns() []metav1.TableColumnDefinition {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		kind.NameColumn(),
		{Name: "Schedule", Type: "string", Description: spec["schedule"]},
		{Name: "Timezone", Type: "string", Description: spec["timeZone"]},
		{Name: "Suspend", Type: "boolean", Description: spec["suspend"]},
		{Name: "Active", Type: "integer", Description: status["active"]},
		{Name: "Last Schedule", Type: "string", Description: status["lastScheduleTime"]},
		kind.AgeColumn(),
		{Name: "Containers", Type: "string", Priority: 1, Description: "Names of each container in the template."},
		{Name: "Images", Type: "string", Priority: 1,
			Description: "Images referenced by each container in the template."},
		{Name: "Selector", Type: "string", Priority: 1, Description: batchv1.JobSpec{}.SwaggerDoc()["selector"]},
	}
}

// cronJobCells returns one row of that table.
func cronJobCells(cj *batchv1.CronJob, now time.Time) []any {
	suspend, last := "<unset>", "<none>"
	if cj.Spec.Suspend != nil {
		suspend = map[bool]string{true: "True", false: "False"}[*cj.Spec.Suspend]
	}
	if cj.Status.LastScheduleTime != nil {
		last = core.Age(*cj.Status.LastScheduleTime, now)
	}
	job := &cj.Spec.JobTemplate.Spec
	names, images := core.ContainerNamesAndImages(job.Template.Spec.Containers)
	return []any{
		cj.Name, cj.Spec.Schedule, ptr.Deref(cj.Spec.TimeZone, "<none>"), suspend, int64(len(cj.Status.Active)), last,
		core.Age(cj.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(job.Selector),
	}
}
