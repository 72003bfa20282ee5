package daemon

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// Values of labels, as the controllers of a cluster write them.
const (
	succeeded = "succeeded"
	failed    = "failed"
)

// metrics are the figures of the loop: those of a cluster's Job and CronJob controllers by their names, for the
// dashboards that know them, and our own.
type metrics struct {
	all []prometheus.Collector

	syncs                         *prometheus.CounterVec
	syncSeconds                   *prometheus.HistogramVec
	jobsFinished                  *prometheus.CounterVec
	jobsElsewhere                 *prometheus.CounterVec
	podsFinished                  *prometheus.CounterVec
	podsCreated                   *prometheus.CounterVec
	indexesFinished               *prometheus.CounterVec
	failuresHandled               *prometheus.CounterVec
	finalizers                    *prometheus.CounterVec
	cronSkew, expiryDelay         prometheus.Histogram
	passSeconds                   prometheus.Histogram
	passes                        *prometheus.CounterVec
	observations                  prometheus.Counter
	podsRunning                   prometheus.Gauge
	podsWaiting                   prometheus.Gauge
	jobRecords                    prometheus.Gauge
	storeBytes, storeHistoryBytes prometheus.GaugeFunc
}

func newMetrics(s *store.Store) *metrics {
	m := &metrics{}
	counters := func(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
		m.all = append(m.all, v)
		return v
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "jobd", Name: name, Help: help})
		m.all = append(m.all, g)
		return g
	}
	const controller = "job_controller"
	m.syncs = counters(controller, "job_syncs_total", "Decisions taken for Jobs.", "completion_mode", "result", "action")
	m.jobsFinished = counters(controller, "jobs_finished_total", "Jobs that have finished.", "completion_mode", "result", "reason")
	m.jobsElsewhere = counters(controller, "jobs_by_external_controller_total", "Jobs created for another controller (spec.managedBy).", "controller_name")
	m.podsFinished = counters(controller, "job_pods_finished_total", "Pods that were counted in the status of their Job.", "completion_mode", "result")
	m.podsCreated = counters(controller, "job_pods_creation_total", "Pods created for Jobs.", "reason", "status")
	m.indexesFinished = counters(controller, "job_finished_indexes_total", "Indexes that have finished.", "status", "backoffLimit")
	m.failuresHandled = counters(controller, "pod_failures_handled_by_failure_policy_total", "Failed pods that matched a rule of spec.podFailurePolicy.", "action")
	m.finalizers = counters(controller, "terminated_pods_tracking_finalizer_total", "Ended pods that have the tracking finalizer (add), or have lost it (delete).", "event")
	m.syncSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: controller, Name: "job_sync_duration_seconds", Help: "How long it took to decide for a Job.",
		Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
	}, []string{"completion_mode", "result", "action"})
	m.cronSkew = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds", Help: "How late CronJobs have made their Jobs.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	})
	m.expiryDelay = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "ttl_after_finished_controller", Name: "job_deletion_duration_seconds", Help: "How late finished Jobs were deleted whose TTL was over.",
		Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
	})
	m.passSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "jobd", Name: "loop_pass_duration_seconds", Help: "How long a pass of the control loop took, until it was durable.",
		Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
	})
	m.passes = counters("jobd", "loop_passes_total", "Passes of the control loop.", "result")
	m.observations = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "jobd", Name: "loop_observations_total", Help: "Observations of containers that the control loop has taken in.",
	})
	m.podsRunning = gauge("pods_running", "Pods that have a place on this machine.")
	m.podsWaiting = gauge("pods_waiting", "Pods that wait for a place on this machine.")
	m.jobRecords = gauge("jobs_unfinished", "Jobs that decisions are still taken for.")
	stat := func(name, help string, value func(store.Stats) int64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "jobd", Name: name, Help: help}, func() float64 {
			st, err := s.Stats()
			if err != nil {
				return 0 // it is closed
			}
			return float64(value(st))
		})
	}
	m.storeBytes = stat("store_bytes", "Size of the database file.", func(st store.Stats) int64 { return st.FileBytes })
	m.storeHistoryBytes = stat("store_history_bytes", "Bytes of former states that the database keeps for watchers.", func(st store.Stats) int64 { return st.HistoryBytes })
	m.all = append(m.all, m.syncSeconds, m.cronSkew, m.expiryDelay, m.passSeconds, m.observations, m.storeBytes, m.storeHistoryBytes)
	return m
}

// register makes a registry show the metrics until unregister is called.
func (m *metrics) register(r prometheus.Registerer) (unregister func(), err error) {
	unregister = func() {
		for _, c := range m.all {
			r.Unregister(c)
		}
	}
	for _, c := range m.all {
		if err := r.Register(c); err != nil {
			unregister()
			return nil, err
		}
	}
	return unregister, nil
}

// figures are what a pass adds to the metrics. They are kept until it is durable: what is decided anew must not be
// counted twice.
type figures struct {
	counts       map[count]int
	observations int
	syncs        []synced
	skews        []time.Duration
	expiries     []time.Duration // how late
}

type count struct {
	of     *prometheus.CounterVec
	labels [3]string
}

// synced is one decision for a Job.
type synced struct {
	mode, action string
	took         time.Duration
}

func (f *figures) add(n int, of *prometheus.CounterVec, labels ...string) {
	if n <= 0 {
		return
	}
	if f.counts == nil {
		f.counts = map[count]int{}
	}
	c := count{of: of}
	copy(c.labels[:], labels)
	f.counts[c] += n
}

// values gives as many as the vector has; no label that is counted here is empty at its end.
func (c count) values() []string {
	n := len(c.labels)
	for n > 1 && c.labels[n-1] == "" {
		n--
	}
	return c.labels[:n]
}

// measure adds a pass to the metrics once it is known whether it was written.
func (p *pass) measure(err error) {
	m, result := p.metrics, "success"
	if err != nil {
		result = "error"
	}
	m.passSeconds.Observe(time.Since(p.now).Seconds())
	m.passes.WithLabelValues(result).Inc()
	for _, s := range p.figures.syncs {
		m.syncs.WithLabelValues(s.mode, result, s.action).Inc()
		m.syncSeconds.WithLabelValues(s.mode, result, s.action).Observe(s.took.Seconds())
	}
	if err != nil {
		return
	}
	for c, n := range p.figures.counts {
		c.of.WithLabelValues(c.values()...).Add(float64(n))
	}
	for _, skew := range p.figures.skews {
		m.cronSkew.Observe(skew.Seconds())
	}
	for _, late := range p.figures.expiries {
		m.expiryDelay.Observe(late.Seconds())
	}
	m.observations.Add(float64(p.figures.observations))
	m.podsRunning.Set(float64(p.records.node.Running()))
	m.podsWaiting.Set(float64(p.records.node.Waiting()))
	m.jobRecords.Set(float64(len(p.records.jobs)))
}

// countDecision counts what was decided for a Job whose status is still the one before.
func (p *pass) countDecision(j *batchv1.Job, d job.Decision) {
	m, f, mode := p.metrics, &p.figures, completionMode(j)
	for _, r := range d.Release {
		switch r.Outcome {
		case job.Succeeded:
			f.add(1, m.podsFinished, mode, succeeded)
		case job.Failed:
			f.add(1, m.podsFinished, mode, failed)
		}
		if r.Action != "" {
			f.add(1, m.failuresHandled, string(r.Action))
		}
	}
	if len(d.Status) == 0 {
		return
	}
	next := &d.Status[len(d.Status)-1]
	if mode == string(batchv1.IndexedCompletion) {
		p.countIndexes(j, next)
	}
	if c := job.End(next); c != nil && job.End(&j.Status) == nil {
		result := failed
		if c.Type == batchv1.JobComplete {
			result = succeeded
		}
		f.add(1, m.jobsFinished, mode, result, c.Reason)
	}
}

// countIndexes counts the indexes that have finished. succeeded is the number of them in an Indexed Job.
func (p *pass) countIndexes(j *batchv1.Job, next *batchv1.JobStatus) {
	limit := "global"
	if j.Spec.BackoffLimitPerIndex != nil {
		limit = "perIndex"
	}
	p.figures.add(int(next.Succeeded-j.Status.Succeeded), p.metrics.indexesFinished, succeeded, limit)
	before, now := ptr.Deref(j.Status.FailedIndexes, ""), ptr.Deref(next.FailedIndexes, "")
	if before != now {
		n := ptr.Deref(j.Spec.Completions, 0)
		p.figures.add(job.ParseIndexes(now, n).Len()-job.ParseIndexes(before, n).Len(), p.metrics.indexesFinished, failed, limit)
	}
}

// countCreation counts pods by why they were created.
func (p *pass) countCreation(j *batchv1.Job, n int, status string) {
	reason := "new"
	switch {
	case j.Status.Failed > 0 && ptr.Deref(j.Spec.PodReplacementPolicy, "") == batchv1.Failed:
		reason = "recreate_failed"
	case j.Status.Failed > 0 || ptr.Deref(j.Status.Terminating, 0) > 0:
		reason = "recreate_terminating_or_failed"
	}
	p.figures.add(n, p.metrics.podsCreated, reason, status)
}

// countFinalizer counts an ended pod that is tracked (add) or no longer (delete).
func (p *pass) countFinalizer(obj *corev1.Pod, event string) {
	if pod.Terminal(obj) {
		p.figures.add(1, p.metrics.finalizers, event)
	}
}

func completionMode(j *batchv1.Job) string {
	return string(ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion))
}

// action names what a decision did.
func action(d job.Decision) string {
	switch {
	case len(d.Create) > 0:
		return "pods_created"
	case len(d.Delete) > 0:
		return "pods_deleted"
	}
	return "tracking"
}
