package metrics

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/cron"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	jobd "github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/store"
)

// How many objects of each kind have metrics of their own: what wait or run come first, then those that changed last.
const (
	maxJobs     = 500
	maxCronJobs = 500
	maxPods     = 250
)

// askTimeout bounds how long the control loop may take to say which objects wait or run.
const askTimeout = 5 * time.Second

// States are what the metrics of objects and containers are read from.
type States struct {
	Store *store.Store
	// Aside knows the objects that the control loop has hung on; nil: none. No decision about them is asked for.
	Aside *aside.List
	// Live returns the keys of the Jobs that have not finished and of the pods that have not, some of them if there are
	// more than max of a kind.
	Live func(ctx context.Context, max int) (jobs, pods []string, err error)
	// Usage returns what a running container uses.
	Usage func(podUID, id string) (jobd.Usage, error)
}

// ShowStates adds metrics of Jobs, CronJobs and pods, under the names and with the labels of kube-state-metrics, and of
// running containers, under those of a kubelet. It is called before Register.
func (m *Metrics) ShowStates(s States) { m.all = append(m.all, s) }

// Describe implements prometheus.Collector. It describes nothing: which metrics there are depends on the objects.
func (s States) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s States) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	liveJobs, livePods, err := s.Live(ctx, max(maxJobs, maxPods))
	if err != nil {
		return // it is busy, or stops
	}
	w := &stateWriter{out: out, descs: map[string]*prometheus.Desc{}, written: map[string]bool{}}
	left := map[string]int{}
	var jobs []*batchv1.Job
	var cronJobs []*batchv1.CronJob
	var pods []*corev1.Pod
	var expected []notify.Expectation
	if err := s.Store.View(func(sn *store.Snapshot) (err error) {
		if jobs, left["jobs"], err = some[batchv1.Job](sn, objects.Jobs, liveJobs, maxJobs); err != nil {
			return err
		}
		if cronJobs, left["cronjobs"], err = some[batchv1.CronJob](sn, objects.CronJobs, nil, maxCronJobs); err != nil {
			return err
		}
		if expected, err = notify.Expectations(sn); err != nil {
			return err
		}
		pods, left["pods"], err = some[corev1.Pod](sn, objects.Pods, livePods, maxPods)
		return err
	}); err != nil {
		return // it is closed
	}
	for _, j := range jobs {
		w.job(j)
	}
	for _, cj := range cronJobs {
		w.cronJob(cj, s.Aside.Knows(objects.Key(objects.CronJobs, cj)))
	}
	left["jobs expected"] = w.expected(expected)
	for _, p := range pods {
		w.pod(p)
		w.containers(p, s.Usage)
	}
	for resource, n := range left {
		w.gauge("jobd_state_metrics_left_out", "Objects without metrics of their own, because there are too many of their kind.",
			float64(n), []string{"resource"}, resource)
	}
}

// some returns objects of a resource, the preferred ones first and then those that changed last, and how many it has left
// out.
func some[T any, P interface {
	*T
	runtime.Object
}](s *store.Snapshot, resource string, prefer []string, most int) (found []*T, left int, err error) {
	first := map[string]bool{}
	for _, key := range prefer {
		first[key] = true
	}
	// There may be a hundred thousand objects at each scrape, of which a few hundred are shown.
	n, shown := 0, make([]stored, 0, 2*most)
	choose := func() {
		slices.SortFunc(shown, stored.compare)
		shown = shown[:min(len(shown), most)]
	}
	s.Versions(resource+"/", func(key []byte, version uint64) bool {
		if n++; len(shown) == 2*most {
			choose()
		}
		shown = append(shown, stored{string(key), first[string(key)], version})
		return true
	})
	choose()
	for _, o := range shown {
		obj := new(T)
		if _, err := objects.Read(s, o.key, P(obj)); err != nil {
			return nil, 0, err
		}
		found = append(found, obj)
	}
	return found, n - len(found), nil
}

// stored is an object that may have metrics of its own.
type stored struct {
	key       string
	preferred bool
	version   uint64
}

// compare orders objects by how much they should have metrics: the preferred ones, then those that changed last.
func (o stored) compare(p stored) int {
	if o.preferred != p.preferred {
		if o.preferred {
			return -1
		}
		return 1
	}
	return cmp.Compare(p.version, o.version)
}

// stateWriter writes metrics. The first metric of a name decides its help and its labels. What was written before is left
// out, since one metric twice would make all of them unreadable: an object may well name an owner twice.
type stateWriter struct {
	out     chan<- prometheus.Metric
	descs   map[string]*prometheus.Desc
	written map[string]bool
}

func (w *stateWriter) write(name, help string, kind prometheus.ValueType, value float64, labels []string, values ...string) {
	d := w.descs[name]
	if d == nil {
		d = prometheus.NewDesc(name, help, labels, nil)
		w.descs[name] = d
	}
	series := name + "\xff" + strings.Join(values, "\xff")
	if w.written[series] {
		return
	}
	w.written[series] = true
	if metric, err := prometheus.NewConstMetric(d, kind, value, values...); err == nil {
		w.out <- metric
	}
}

func (w *stateWriter) gauge(name, help string, value float64, labels []string, values ...string) {
	w.write(name, help, prometheus.GaugeValue, value, labels, values...)
}

// of writes gauges about one object, whose labels come first.
type of struct {
	*stateWriter
	labels, values []string
}

func (o of) gauge(name, help string, value float64) {
	o.stateWriter.gauge(name, help, value, o.labels, o.values...)
}

func (o of) with(name, help string, value float64, labels []string, values ...string) {
	o.stateWriter.gauge(name, help, value, slices.Concat(o.labels, labels), slices.Concat(o.values, values)...)
}

func (o of) time(name, help string, t *metav1.Time) {
	if t != nil && !t.IsZero() {
		o.gauge(name, help, float64(t.Unix()))
	}
}

func optional[N int32 | int64](o of, name, help string, n *N) {
	if n != nil {
		o.gauge(name, help, float64(*n))
	}
}

// condition writes which of the three states a condition has.
func (o of) condition(name, help string, is corev1.ConditionStatus) {
	for _, status := range []struct {
		is    corev1.ConditionStatus
		label string
	}{{corev1.ConditionTrue, "true"}, {corev1.ConditionFalse, "false"}, {corev1.ConditionUnknown, "unknown"}} {
		o.with(name, help, flag(is == status.is), []string{"condition"}, status.label)
	}
}

// owners writes who owns the object; one without owners has empty labels.
func (o of) owners(name, help string, refs []metav1.OwnerReference) {
	labels := []string{"owner_kind", "owner_name", "owner_is_controller"}
	if len(refs) == 0 {
		o.with(name, help, 1, labels, "", "", "")
	}
	for _, ref := range refs {
		o.with(name, help, 1, labels, ref.Kind, ref.Name, strconv.FormatBool(ref.Controller != nil && *ref.Controller))
	}
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// failureReasons are those that kube-state-metrics tells apart for a Job.
var failureReasons = []string{"BackoffLimitExceeded", "DeadlineExceeded", "Evicted"}

func (w *stateWriter) job(j *batchv1.Job) {
	o := of{w, []string{"namespace", "job_name"}, []string{j.Namespace, j.Name}}
	o.gauge("kube_job_info", "A Job that exists.", 1)
	o.time("kube_job_created", "When the Job was created, in seconds since 1970.", &j.CreationTimestamp)
	o.owners("kube_job_owner", "Who owns the Job.", j.OwnerReferences)
	optional(o, "kube_job_spec_parallelism", "How many pods of the Job may run at a time.", j.Spec.Parallelism)
	optional(o, "kube_job_spec_completions", "How many pods of the Job are to succeed.", j.Spec.Completions)
	optional(o, "kube_job_spec_active_deadline_seconds", "How many seconds the Job may be active.", j.Spec.ActiveDeadlineSeconds)
	s := &j.Status
	o.gauge("kube_job_status_active", "Pods of the Job that wait or run.", float64(s.Active))
	o.gauge("kube_job_status_succeeded", "Pods of the Job that have succeeded.", float64(s.Succeeded))
	ready := int32(0)
	if s.Ready != nil {
		ready = *s.Ready
	}
	o.gauge("kube_job_status_ready", "Pods of the Job that are ready.", float64(ready))
	o.time("kube_job_status_start_time", "When the Job was started, in seconds since 1970.", s.StartTime)
	o.time("kube_job_status_completion_time", "When the Job was complete, in seconds since 1970.", s.CompletionTime)
	var failed *batchv1.JobCondition
	for i := range s.Conditions {
		c := &s.Conditions[i]
		switch c.Type {
		case batchv1.JobComplete:
			o.condition("kube_job_complete", "Whether the Job is complete.", c.Status)
		case batchv1.JobFailed:
			o.condition("kube_job_failed", "Whether the Job has failed.", c.Status)
			failed = c
		case batchv1.JobSuspended:
			o.gauge("kube_job_status_suspended", "Whether the Job is suspended.", flag(c.Status == corev1.ConditionTrue))
		}
	}
	const name, help = "kube_job_status_failed", "Pods of the Job that have failed; with a reason, 1 if the Job has failed for it."
	known := failed != nil && slices.Contains(failureReasons, failed.Reason)
	if s.Failed > 0 && failed != nil {
		for _, reason := range failureReasons {
			o.with(name, help, flag(failed.Reason == reason), []string{"reason"}, reason)
		}
	}
	if !known || s.Failed == 0 {
		o.with(name, help, float64(s.Failed), []string{"reason"}, "")
	}
}

// expected writes what is expected of names of Jobs, of those first that are overdue, and returns how many it has left out.
func (w *stateWriter) expected(all []notify.Expectation) (left int) {
	slices.SortStableFunc(all, func(a, b notify.Expectation) int { return a.Due().Compare(b.Due()) })
	left = max(len(all)-maxJobs, 0)
	for _, e := range all[:len(all)-left] {
		o := of{w, []string{"namespace", "job_name"}, []string{e.Namespace, e.Name}}
		o.gauge("jobd_job_overdue", "Whether no Job of the name has succeeded within the time that is expected.", flag(e.Late(time.Now())))
		if e.Last != nil {
			o.gauge("jobd_job_last_successful_time", "When a Job of a name was last complete of which that is expected, in seconds since 1970.",
				float64(e.Last.Unix()))
		}
	}
	return left
}

func (w *stateWriter) cronJob(cj *batchv1.CronJob, aside bool) {
	o := of{w, []string{"namespace", "cronjob"}, []string{cj.Namespace, cj.Name}}
	zone := "local"
	if cj.Spec.TimeZone != nil {
		zone = *cj.Spec.TimeZone
	}
	o.with("kube_cronjob_info", "A CronJob that exists.", 1, []string{"schedule", "concurrency_policy", "timezone"},
		cj.Spec.Schedule, string(cj.Spec.ConcurrencyPolicy), zone)
	o.time("kube_cronjob_created", "When the CronJob was created, in seconds since 1970.", &cj.CreationTimestamp)
	suspended := cj.Spec.Suspend != nil && *cj.Spec.Suspend
	o.gauge("kube_cronjob_spec_suspend", "Whether the CronJob is suspended.", flag(suspended))
	optional(o, "kube_cronjob_spec_starting_deadline_seconds", "How many seconds late a Job may be started.", cj.Spec.StartingDeadlineSeconds)
	optional(o, "kube_cronjob_spec_successful_job_history_limit", "How many Jobs are kept that are complete.", cj.Spec.SuccessfulJobsHistoryLimit)
	optional(o, "kube_cronjob_spec_failed_job_history_limit", "How many Jobs are kept that have failed.", cj.Spec.FailedJobsHistoryLimit)
	o.gauge("kube_cronjob_status_active", "Jobs of the CronJob that have not finished.", float64(len(cj.Status.Active)))
	o.time("kube_cronjob_status_last_schedule_time", "The last time for which a Job was started, in seconds since 1970.", cj.Status.LastScheduleTime)
	o.time("kube_cronjob_status_last_successful_time", "When a Job of the CronJob was last complete, in seconds since 1970.", cj.Status.LastSuccessfulTime)
	if late := notices.Expect(cj.Annotations, cj.CreationTimestamp, cj.Status.LastSuccessfulTime, time.Now()); !late.Due.IsZero() {
		o.gauge("jobd_cronjob_overdue", "Whether no Job of the CronJob has succeeded within the time that is expected.", flag(late.Overdue))
	}
	if aside {
		return
	}
	if times, err := cron.TimesOf(cj, time.Time{}, time.Now()); err == nil && !suspended && !times.Next.IsZero() {
		o.gauge("kube_cronjob_next_schedule_time", "When the CronJob is to start a Job next, in seconds since 1970.", float64(times.Starts().Unix()))
	}
}
