package batch

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// fieldRules names, for every field of a Job's and a CronJob's spec, the file that carries it out.
var fieldRules = map[reflect.Type]map[string]string{
	reflect.TypeFor[batchv1.JobSpec](): {
		"parallelism":             "daemon/job/parallelism.go",
		"completions":             "daemon/job/completion_mode.go",
		"activeDeadlineSeconds":   "daemon/job/active_deadline.go",
		"podFailurePolicy":        "daemon/job/pod_failure_policy.go",
		"successPolicy":           "daemon/job/success_policy.go",
		"backoffLimit":            "daemon/job/backoff_limit.go",
		"backoffLimitPerIndex":    "daemon/job/backoff_limit_per_index.go",
		"maxFailedIndexes":        "daemon/job/max_failed_indexes.go",
		"selector":                "daemon/job/selector.go",
		"manualSelector":          "api/batch/job_prepare.go",
		"template":                "daemon/job/new_pod.go",
		"ttlSecondsAfterFinished": "daemon/job/ttl_seconds_after_finished.go",
		"completionMode":          "daemon/job/completion_mode.go",
		"suspend":                 "daemon/job/suspend.go",
		"podReplacementPolicy":    "daemon/job/pod_replacement_policy.go",
		"managedBy":               "daemon/job/managed_by.go",
		"scheduling":              "daemon/job/scheduling.go",
	},
	reflect.TypeFor[batchv1.PodFailurePolicy](): {"rules": "api/batch/pod_failure_policy.go"},
	reflect.TypeFor[batchv1.PodFailurePolicyRule](): {
		"action":          "daemon/job/pod_failure_policy.go",
		"onExitCodes":     "api/batch/pod_failure_policy.go",
		"onPodConditions": "api/batch/pod_failure_policy.go",
	},
	reflect.TypeFor[batchv1.PodFailurePolicyOnExitCodesRequirement](): {
		"containerName": "api/batch/pod_failure_policy.go",
		"operator":      "api/batch/pod_failure_policy.go",
		"values":        "api/batch/pod_failure_policy.go",
	},
	reflect.TypeFor[batchv1.PodFailurePolicyOnPodConditionsPattern](): {
		"type":   "api/batch/pod_failure_policy.go",
		"status": "api/batch/pod_failure_policy.go",
	},
	reflect.TypeFor[batchv1.SuccessPolicy](): {"rules": "daemon/job/success_policy.go"},
	reflect.TypeFor[batchv1.SuccessPolicyRule](): {
		"succeededIndexes": "daemon/job/success_policy.go",
		"succeededCount":   "daemon/job/success_policy.go",
	},
	reflect.TypeFor[batchv1.JobSchedulingConfiguration](): {
		"schedulingPolicy":      "api/batch/job_scheduling.go",
		"schedulingConstraints": "api/batch/job_scheduling.go",
		"disruptionMode":        "api/batch/job_scheduling.go",
		"resourceClaims":        "api/batch/job_scheduling.go",
	},
	reflect.TypeFor[batchv1.CronJobSpec](): {
		"schedule":                   "daemon/cron/schedule.go",
		"timeZone":                   "daemon/cron/schedule.go",
		"startingDeadlineSeconds":    "daemon/cron/decide.go",
		"concurrencyPolicy":          "daemon/cron/decide.go",
		"suspend":                    "daemon/cron/decide.go",
		"jobTemplate":                "daemon/cron/new_job.go",
		"successfulJobsHistoryLimit": "daemon/cron/decide.go",
		"failedJobsHistoryLimit":     "daemon/cron/decide.go",
	},
	reflect.TypeFor[batchv1.JobTemplateSpec](): {
		"metadata": "daemon/cron/new_job.go",
		"spec":     "daemon/cron/new_job.go",
	},
}

// A field that a new version of the API brings is not ignored: it gets a rule, or this fails.
func TestEveryFieldOfAJobHasARule(t *testing.T) {
	left := maps.Clone(fieldRules)
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		rules, unvisited := left[typ]
		if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[batchv1.JobSpec]().PkgPath() {
			return // a plain value, or a type that another package is responsible for, such as a pod template
		}
		if _, ok := fieldRules[typ]; ok && !unvisited {
			return
		}
		delete(left, typ)
		gone := maps.Clone(rules)
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			file, ok := rules[name]
			if !ok {
				t.Errorf("nothing carries out %v.%s: build it, or refuse it in validation, and add the file to fieldRules "+
					"(CONTRIBUTING.md, \"A field of a Job\")", typ, name)
			} else if _, err := os.Stat(filepath.Join("..", "..", file)); err != nil {
				t.Errorf("%v.%s: %v", typ, name, err)
			}
			delete(gone, name)
			visit(f.Type)
		}
		for _, name := range slices.Sorted(maps.Keys(gone)) {
			t.Errorf("%v has no field %s: remove it from fieldRules", typ, name)
		}
	}
	visit(reflect.TypeFor[batchv1.JobSpec]())
	visit(reflect.TypeFor[batchv1.CronJobSpec]())
	for typ := range left {
		t.Errorf("no field of a Job or a CronJob leads to %v: remove it from fieldRules", typ)
	}
}
