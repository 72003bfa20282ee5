package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	jobd "github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/store"
)

func fill(t testing.TB, all ...objects.Object) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		for _, o := range all {
			resource := objects.Jobs
			switch o.(type) {
			case *corev1.Pod:
				resource = objects.Pods
			case *batchv1.CronJob:
				resource = objects.CronJobs
			}
			value, err := scheme.Encode(o)
			if err != nil {
				return err
			}
			tx.Put(store.Object{Key: objects.Key(resource, o), UID: string(o.GetUID()), Value: value})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// scrape returns all series as a scraper reads them, in the text format and as OpenMetrics.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if _, err := m.Register(r); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text, open bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
		if _, err := expfmt.MetricFamilyToOpenMetrics(&open, f); err != nil {
			t.Fatal(err)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems { // other names are not ours to choose
		if strings.HasPrefix(p.Metric, "jobd_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(&text)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, f := range parsed {
		for _, one := range f.Metric {
			var labels []string
			for _, l := range one.Label {
				if l.GetValue() != "" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			slices.Sort(labels)
			all[name+"{"+strings.Join(labels, ",")+"}"] = one.GetGauge().GetValue() + one.GetCounter().GetValue() + one.GetHistogram().GetSampleSum()
		}
	}
	return all
}

func nothingLives(context.Context, int) (jobs, pods []string, err error) { return nil, nil, nil }

func noUsage(string, string) (jobd.Usage, error) { return jobd.Usage{}, fmt.Errorf("no") }

// Names, labels and values are those that dashboards for clusters expect.
func TestMetricsOfObjects(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "j", CreationTimestamp: at}}
	j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](2), ptr.To[int32](3)
	j.Status = batchv1.JobStatus{Failed: 2, StartTime: &at, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"},
	}}
	owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "c", Controller: ptr.To(true)}
	again := owner
	again.UID = "d"
	j.OwnerReferences = []metav1.OwnerReference{owner, again} // twice the same labels
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c", CreationTimestamp: at}}
	cj.Spec.Schedule, cj.Spec.ConcurrencyPolicy = "0 0 1 1 *", batchv1.ForbidConcurrent
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", CreationTimestamp: at}}
	p.Spec.NodeName = "node"
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "nvidia.com/gpu": resource.MustParse("1")},
		Limits:   corev1.ResourceList{"memory": resource.MustParse("1Mi")},
	}}}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Image: "docker.io/library/busybox:latest", ContainerID: "containerd://id", RestartCount: 1,
		State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
	}}
	s := fill(t, j, cj, p)
	m := New(s)
	m.ShowStates(States{Store: s, Live: nothingLives, Usage: func(pod, id string) (jobd.Usage, error) {
		if pod != "u" || id != "id" {
			t.Errorf("the usage of %s %s is asked for", pod, id)
		}
		return jobd.Usage{CPU: 1500 * time.Millisecond, WorkingSet: 1000, Memory: 2000, PeakMemory: 3000}, nil
	}})
	f := m.Figures()
	f.JobEnded(history.Job{Namespace: "ns", Result: history.Failed, Use: history.Use{CPUSeconds: 2.5, PeakMemory: 1 << 20}})
	m.Passed(&f, time.Millisecond, nil)
	got := scrape(t, m)
	for series, want := range map[string]float64{
		"kube_job_info{job_name=j,namespace=ns}":                                                                                               1,
		"kube_job_owner{job_name=j,namespace=ns,owner_is_controller=true,owner_kind=CronJob,owner_name=c}":                                     1,
		"kube_job_spec_completions{job_name=j,namespace=ns}":                                                                                   3,
		"kube_job_failed{condition=true,job_name=j,namespace=ns}":                                                                              1,
		"kube_job_status_failed{job_name=j,namespace=ns,reason=BackoffLimitExceeded}":                                                          1,
		"kube_job_status_start_time{job_name=j,namespace=ns}":                                                                                  1000,
		"kube_cronjob_info{concurrency_policy=Forbid,cronjob=c,namespace=ns,schedule=0 0 1 1 *,timezone=local}":                                1,
		"kube_cronjob_status_active{cronjob=c,namespace=ns}":                                                                                   0,
		"kube_pod_status_phase{namespace=ns,phase=Running,pod=p,uid=u}":                                                                        1,
		"kube_pod_status_phase{namespace=ns,phase=Failed,pod=p,uid=u}":                                                                         0,
		"kube_pod_container_status_restarts_total{container=main,namespace=ns,pod=p,uid=u}":                                                    1,
		"kube_pod_container_status_last_terminated_reason{container=main,namespace=ns,pod=p,reason=OOMKilled,uid=u}":                           1,
		"kube_pod_container_state_started{container=main,namespace=ns,pod=p,uid=u}":                                                            1000,
		"kube_pod_container_resource_requests{container=main,namespace=ns,node=node,pod=p,resource=cpu,uid=u,unit=core}":                       0.5,
		"kube_pod_container_resource_requests{container=main,namespace=ns,node=node,pod=p,resource=nvidia_com_gpu,uid=u,unit=integer}":         1,
		"kube_pod_container_resource_limits{container=main,namespace=ns,node=node,pod=p,resource=memory,uid=u,unit=byte}":                      1 << 20,
		"container_cpu_usage_seconds_total{container=main,cpu=total,id=/id,image=docker.io/library/busybox:latest,name=id,namespace=ns,pod=p}": 1.5,
		"container_memory_working_set_bytes{container=main,id=/id,image=docker.io/library/busybox:latest,name=id,namespace=ns,pod=p}":          1000,
		"container_spec_memory_limit_bytes{container=main,id=/id,image=docker.io/library/busybox:latest,name=id,namespace=ns,pod=p}":           1 << 20,
		"jobd_job_cpu_seconds_total{namespace=ns,result=Failed}":                                                                               2.5,
		"jobd_job_peak_memory_bytes{}":               1 << 20,
		"jobd_state_metrics_left_out{resource=pods}": 0,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (%t), want %v", series, value, ok, want)
		}
	}
	if next := got["kube_cronjob_next_schedule_time{cronjob=c,namespace=ns}"]; next <= float64(time.Now().Unix()) {
		t.Errorf("the next time of the CronJob is %v", next)
	}
}

// Of names of which a success is expected those are shown first that are overdue.
func TestMetricsOfWhatIsExpected(t *testing.T) {
	s := fill(t)
	last := time.Now().Add(-3 * time.Hour)
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		put := func(name string, m notify.Memory) error {
			value, err := json.Marshal(m)
			if err == nil {
				tx.Put(store.Object{Key: notify.MemoryKey("ns", name), Value: value})
			}
			return err
		}
		for i := range maxJobs {
			if err := put(fmt.Sprintf("%s%d", notify.OfJobs, i), notify.Memory{Every: time.Hour, Since: time.Now()}); err != nil {
				return err
			}
		}
		return errors.Join(
			put(notify.OfJobs+"late", notify.Memory{Every: 2 * time.Hour}.Succeeded(last)),
			put(notify.OfJobs+"failed", notify.Memory{Failed: true}),
			put(notify.OfCronJob+"c", notify.Memory{Failed: true}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	m := New(s)
	m.ShowStates(States{Store: s, Live: nothingLives, Usage: noUsage})
	got := scrape(t, m)
	shown := 0
	for series := range got {
		if strings.HasPrefix(series, "jobd_job_overdue{") {
			shown++
		}
	}
	for series, want := range map[string]float64{
		"jobd_job_overdue{job_name=late,namespace=ns}":              1,
		"jobd_job_overdue{job_name=0,namespace=ns}":                 0,
		"jobd_job_last_successful_time{job_name=late,namespace=ns}": float64(last.Unix()),
		"jobd_state_metrics_left_out{resource=jobs expected}":       1,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (%t), want %v", series, value, ok, want)
		}
	}
	if shown != maxJobs {
		t.Errorf("%d names are shown", shown)
	}
}

// However many objects there are, the series are bounded: what lives comes first, and then what changed last.
func TestMetricsAreBounded(t *testing.T) {
	const n = 5 * maxPods
	var all []objects.Object
	for i := range n {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprint(i))}}
		p.Status.Phase = corev1.PodSucceeded
		all = append(all, p)
	}
	s := fill(t, all...)
	m := New(s)
	m.ShowStates(States{Store: s, Usage: noUsage, Live: func(context.Context, int) (jobs, pods []string, err error) {
		return nil, []string{store.Key(objects.Pods, "ns", "p0")}, nil
	}})
	got := scrape(t, m)
	shown := 0
	for series := range got {
		if strings.HasPrefix(series, "kube_pod_info{") {
			shown++
		}
	}
	has := func(i int) bool {
		_, ok := got[fmt.Sprintf("kube_pod_info{host_network=false,namespace=ns,pod=p%d,uid=%d}", i, i)]
		return ok
	}
	left := got["jobd_state_metrics_left_out{resource=pods}"]
	if shown != maxPods || left != n-maxPods || !has(0) || has(n-maxPods) || !has(n-maxPods+1) || !has(n-1) {
		t.Errorf("%d pods are shown and %v left out", shown, left)
	}
}

// BenchmarkMetricsOfManyPods reads the metrics of the objects while 100,000 pods are stored.
func BenchmarkMetricsOfManyPods(b *testing.B) {
	all := make([]objects.Object, 100_000)
	for i := range all {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%06d", i), UID: types.UID(fmt.Sprint(i))}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox", Command: []string{strings.Repeat("x", 1000)}}}
		p.Status.Phase = corev1.PodSucceeded
		all[i] = p
	}
	s := States{Store: fill(b, all...), Live: nothingLives, Usage: noUsage}
	b.ReportAllocs()
	for b.Loop() {
		out := make(chan prometheus.Metric)
		go func() {
			defer close(out)
			s.Collect(out)
		}()
		for range out {
		}
	}
}
