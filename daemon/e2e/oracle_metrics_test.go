package e2e

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/testdata/oracle"
)

// metricsOf returns the metrics of a cluster's Job controller after all that was recorded.
func metricsOf(scenarios []*oracle.Scenario) map[string]int {
	m := map[string]int{}
	add := func(n int, format string, args ...any) {
		if n > 0 {
			m["job_controller_"+fmt.Sprintf(format, args...)] += n
		}
	}
	for _, s := range scenarios {
		spec, end := &s.Manifest.Spec, s.Timeline[len(s.Timeline)-1].Status
		mode := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion)
		if spec.ManagedBy != nil {
			add(1, "jobs_by_external_controller_total{controller_name=%q}", *spec.ManagedBy)
		}
		for _, c := range end.Conditions {
			switch c.Type {
			case batchv1.JobComplete:
				add(1, "jobs_finished_total{completion_mode=%q,reason=%q,result=%q}", mode, c.Reason, "succeeded")
			case batchv1.JobFailed:
				add(1, "jobs_finished_total{completion_mode=%q,reason=%q,result=%q}", mode, c.Reason, "failed")
			}
		}
		add(int(end.Succeeded), "job_pods_finished_total{completion_mode=%q,result=%q}", mode, "succeeded")
		add(int(end.Failed), "job_pods_finished_total{completion_mode=%q,result=%q}", mode, "failed")
		if mode == batchv1.IndexedCompletion {
			limit := "global"
			if spec.BackoffLimitPerIndex != nil {
				limit = "perIndex"
			}
			add(int(end.Succeeded), "job_finished_indexes_total{backoffLimit=%q,status=%q}", limit, "succeeded")
			if failed := ptr.Deref(end.FailedIndexes, ""); failed != "" {
				add(strings.Count(failed, ",")+1, "job_finished_indexes_total{backoffLimit=%q,status=%q}", limit, "failed")
			}
		}
	}
	return m
}
