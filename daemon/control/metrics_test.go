package control_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestMetricsAreThoseOfAClusterAndOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		indexed := controltest.Simulate("indexed", "1s", "1:3,2:4")
		indexed.Spec.Completions, indexed.Spec.Parallelism = ptr.To[int32](4), ptr.To[int32](4)
		indexed.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		indexed.Spec.BackoffLimitPerIndex = ptr.To[int32](0)
		indexed.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:      batchv1.PodFailurePolicyActionFailIndex,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{3}},
		}}}
		w.Create(indexed)
		again := controltest.Simulate("again", "1s", "1,0")
		again.Spec.BackoffLimit = ptr.To[int32](0)
		w.Create(again)
		w.Create(controltest.Simulate("good", "0s", "0"))
		w.Create(controltest.Simulate("long", "1h", "0"))
		elsewhere := controltest.Simulate("elsewhere", "0s", "0")
		elsewhere.Spec.ManagedBy = ptr.To("example.com/queue")
		w.Create(elsewhere)
		time.Sleep(time.Minute)
		w.WantFigures(map[string]float64{
			"job_controller_jobs_finished_total{Indexed,FailedIndexes,failed}":            1,
			"job_controller_jobs_finished_total{NonIndexed,BackoffLimitExceeded,failed}":  1,
			"job_controller_jobs_finished_total{NonIndexed,CompletionsReached,succeeded}": 1,
			"job_controller_job_pods_finished_total{Indexed,succeeded}":                   2,
			"job_controller_job_pods_finished_total{Indexed,failed}":                      2,
			"job_controller_job_pods_finished_total{NonIndexed,succeeded}":                1,
			"job_controller_job_pods_finished_total{NonIndexed,failed}":                   1,
			"job_controller_job_finished_indexes_total{perIndex,succeeded}":               2,
			"job_controller_job_finished_indexes_total{perIndex,failed}":                  2,
			"job_controller_pod_failures_handled_by_failure_policy_total{FailIndex}":      1,
			"job_controller_job_pods_creation_total{new,succeeded}":                       7,
			"job_controller_terminated_pods_tracking_finalizer_total{add}":                6,
			"job_controller_terminated_pods_tracking_finalizer_total{delete}":             6,
			"job_controller_jobs_by_external_controller_total{example.com/queue}":         1,
			"jobd_pods_running{}":    1,
			"jobd_pods_waiting{}":    0,
			"jobd_jobs_unfinished{}": 2,
		})
		got := w.Figures()
		for _, name := range []string{
			"job_controller_job_syncs_total{pods_created,Indexed,success}",
			"job_controller_job_sync_duration_seconds{tracking,NonIndexed,success}",
			"jobd_loop_pass_duration_seconds{}", "jobd_loop_observations_total{}", "jobd_store_bytes{}",
		} {
			if got[name] == 0 {
				t.Errorf("%s is missing: %v", name, got)
			}
		}
	})
}

// Namespaces come and go, and what is counted of each must go with it.
func TestMetricsOfANamespaceGoWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Create(controltest.Simulate("good", "1s", "0"))
		time.Sleep(5 * time.Second)
		of := func() (n int) {
			for name := range w.Figures() {
				if strings.HasPrefix(name, "jobd_job_cpu_seconds_total{") {
					n++
				}
			}
			return n
		}
		if of() != 1 {
			t.Errorf("%d series, want that of the namespace", of())
		}
		ns := &corev1.Namespace{}
		ns.Name, ns.Spec.Finalizers = "default", []corev1.FinalizerName{corev1.FinalizerKubernetes}
		storage.MarkDeleted(ns, time.Now(), 0)
		w.Put(store.Key(objects.Namespaces, "", "default"), ns)
		time.Sleep(time.Minute)
		if w.Read(store.Key(objects.Namespaces, "", "default"), ns) {
			t.Fatal("the namespace is there")
		}
		if of() != 0 {
			t.Errorf("%d series are left", of())
		}
	})
}

func TestWhatWasNotWrittenIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		// No event about a pod of such a name can be stored, so a pass that binds it fails.
		bad := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 4080), Namespace: "default", UID: uuid.NewUUID()}}
		bad.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		w.Put(objects.Key(objects.Pods, bad), bad)
		w.Create(controltest.Simulate("good", "0s", "0"))
		time.Sleep(5 * time.Second)
		got := w.Figures()
		if got["jobd_loop_passes_total{error}"] < 3 || got["job_controller_job_syncs_total{pods_created,NonIndexed,error}"] < 3 {
			t.Errorf("passes do not fail: %v", got)
		}
		if got["job_controller_job_pods_creation_total{new,succeeded}"] > 0 {
			t.Errorf("pods are counted that were never made: %v", got)
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Pods, bad)); return nil })
		time.Sleep(5 * time.Second)
		w.WantFigures(map[string]float64{
			"job_controller_job_pods_creation_total{new,succeeded}":                       1,
			"job_controller_job_pods_finished_total{NonIndexed,succeeded}":                1,
			"job_controller_jobs_finished_total{NonIndexed,CompletionsReached,succeeded}": 1,
		})
	})
}

// The reasons of conditions are what clients have written.
func TestMetricsOfReasonsThatClientsHaveWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		reasons := []string{"", "\xff", strings.Repeat("x", 1<<20), batchv1.JobReasonSuccessPolicy}
		for i, reason := range reasons {
			for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget} {
				j := controltest.Simulate(strings.ToLower(fmt.Sprint(kind, i)), "1m", "0")
				w.Create(j)
				time.Sleep(time.Second)
				w.edit(store.Key(objects.Jobs, j.Namespace, j.Name), j, func() {
					j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason})
				})
			}
		}
		for i := range 200 {
			elsewhere := controltest.Simulate(fmt.Sprint("elsewhere", i), "0s", "0")
			elsewhere.Spec.ManagedBy = ptr.To(fmt.Sprintf("example.com/queue%d", i))
			w.Create(elsewhere)
		}
		time.Sleep(time.Hour)
		w.WantFigures(map[string]float64{
			"job_controller_jobs_finished_total{NonIndexed,,succeeded}":              1,
			"job_controller_jobs_finished_total{NonIndexed,other,succeeded}":         2,
			"job_controller_jobs_finished_total{NonIndexed,SuccessPolicy,succeeded}": 1,
			"job_controller_jobs_finished_total{NonIndexed,,failed}":                 1,
			"job_controller_jobs_finished_total{NonIndexed,other,failed}":            2,
			"job_controller_jobs_finished_total{NonIndexed,SuccessPolicy,failed}":    1,
			"job_controller_jobs_by_external_controller_total{other}":                100,
		})
	})
}
