package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// figures returns counters, gauges and the counts of histograms by name{values of labels}.
func (w *world) figures() map[string]float64 {
	w.t.Helper()
	synctest.Wait()
	r := prometheus.NewRegistry()
	if _, err := w.control.config.Metrics.Register(r); err != nil {
		w.t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func (w *world) want(figures map[string]float64) {
	w.t.Helper()
	got := w.figures()
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		if got[name] != figures[name] {
			w.t.Errorf("%s is %v, want %v", name, got[name], figures[name])
		}
	}
	if w.t.Failed() {
		w.t.Log(fmt.Sprint(got))
	}
}

func TestMetricsAreThoseOfAClusterAndOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		indexed := simulate("indexed", "1s", "1:3,2:4")
		indexed.Spec.Completions, indexed.Spec.Parallelism = ptr.To[int32](4), ptr.To[int32](4)
		indexed.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		indexed.Spec.BackoffLimitPerIndex = ptr.To[int32](0)
		indexed.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:      batchv1.PodFailurePolicyActionFailIndex,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{3}},
		}}}
		w.create(indexed)
		again := simulate("again", "1s", "1,0")
		again.Spec.BackoffLimit = ptr.To[int32](0)
		w.create(again)
		w.create(simulate("good", "0s", "0"))
		w.create(simulate("long", "1h", "0"))
		elsewhere := simulate("elsewhere", "0s", "0")
		elsewhere.Spec.ManagedBy = ptr.To("example.com/queue")
		w.create(elsewhere)
		time.Sleep(time.Minute)
		w.want(map[string]float64{
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
		got := w.figures()
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
		defer w.end()
		w.create(simulate("good", "1s", "0"))
		time.Sleep(5 * time.Second)
		of := func() (n int) {
			for name := range w.figures() {
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
		w.put(store.Key(objects.Namespaces, "", "default"), ns)
		time.Sleep(time.Minute)
		if w.read(store.Key(objects.Namespaces, "", "default"), ns) {
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
		defer w.end()
		// No event about a pod of such a name can be stored, so a pass that binds it fails.
		bad := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 4080), Namespace: "default", UID: uuid.NewUUID()}}
		bad.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		w.put(objects.Key(objects.Pods, bad), bad)
		w.create(simulate("good", "0s", "0"))
		time.Sleep(5 * time.Second)
		got := w.figures()
		if got["jobd_loop_passes_total{error}"] < 3 || got["job_controller_job_syncs_total{pods_created,NonIndexed,error}"] < 3 {
			t.Errorf("passes do not fail: %v", got)
		}
		if got["job_controller_job_pods_creation_total{new,succeeded}"] > 0 {
			t.Errorf("pods are counted that were never made: %v", got)
		}
		w.write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Pods, bad)); return nil })
		time.Sleep(5 * time.Second)
		w.want(map[string]float64{
			"job_controller_job_pods_creation_total{new,succeeded}":                       1,
			"job_controller_job_pods_finished_total{NonIndexed,succeeded}":                1,
			"job_controller_jobs_finished_total{NonIndexed,CompletionsReached,succeeded}": 1,
		})
	})
}
