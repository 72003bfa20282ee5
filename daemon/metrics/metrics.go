// Package metrics counts what the control loop does: in the metrics of a cluster's Job and CronJob controllers, under the
// same names so that existing dashboards work, and in metrics of our own.
//
// What a pass decides comes in through Figures, which are added to the metrics once the pass is durable. Metrics go out
// to a registry.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jobd/jobd/store"
)

// Values of labels, as the controllers of a cluster write them.
const (
	succeeded = "succeeded"
	failed    = "failed"
)

// Metrics are the metrics of the loop.
type Metrics struct {
	all []prometheus.Collector

	managers managers
	sets     setNames

	syncs                         *prometheus.CounterVec
	syncSeconds                   *prometheus.HistogramVec
	jobsFinished                  *prometheus.CounterVec
	jobsElsewhere                 *prometheus.CounterVec
	setsFailed, setsCompleted     *prometheus.CounterVec
	noticesRefused, overdue       *prometheus.CounterVec
	podsFinished                  *prometheus.CounterVec
	podsCreated                   *prometheus.CounterVec
	indexesFinished               *prometheus.CounterVec
	failuresHandled               *prometheus.CounterVec
	finalizers                    *prometheus.CounterVec
	jobCPU                        *prometheus.CounterVec
	jobMemory                     prometheus.Histogram
	cronSkew, expiryDelay         prometheus.Histogram
	passSeconds                   prometheus.Histogram
	passes                        *prometheus.CounterVec
	observations                  prometheus.Counter
	podsRunning                   prometheus.Gauge
	podsWaiting                   prometheus.Gauge
	jobRecords                    prometheus.Gauge
	storeBytes, storeHistoryBytes prometheus.GaugeFunc
}

// New makes the metrics of a loop over a store. They are served once they are registered.
func New(s *store.Store) *Metrics {
	m := &Metrics{}
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
	m.syncs = counters(controller, "job_syncs_total", "Decisions taken for Jobs.", "completion_mode", "result",
		"action")
	m.jobsFinished = counters(controller, "jobs_finished_total", "Jobs that have finished.", "completion_mode",
		"result", "reason")
	m.jobsElsewhere = counters(controller, "jobs_by_external_controller_total",
		"Jobs created for another controller (spec.managedBy).", "controller_name")
	m.setsFailed = counters("jobset", "failed_total", "The total number of failed JobSets", "jobset_name", "namespace")
	m.setsCompleted = counters("jobset", "completed_total", "The total number of completed JobSets", "jobset_name", "namespace")
	m.podsFinished = counters(controller, "job_pods_finished_total",
		"Pods that were counted in the status of their Job.", "completion_mode", "result")
	m.podsCreated = counters(controller, "job_pods_creation_total", "Pods created for Jobs.", "reason", "status")
	m.indexesFinished = counters(controller, "job_finished_indexes_total", "Indexes that have finished.", "status",
		"backoffLimit")
	m.failuresHandled = counters(controller, "pod_failures_handled_by_failure_policy_total",
		"Failed pods that matched a rule of spec.podFailurePolicy.", "action")
	m.finalizers = counters(controller, "terminated_pods_tracking_finalizer_total",
		"Ended pods that have the tracking finalizer (add), or have lost it (delete).", "event")
	m.syncSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: controller, Name: "job_sync_duration_seconds", Help: "How long it took to decide for a Job.",
		Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
	}, []string{"completion_mode", "result", "action"})
	m.jobCPU = counters("jobd", "job_cpu_seconds_total", "Processor time of Jobs that have ended, in seconds.", "namespace", "result")
	m.noticesRefused = counters("jobd", "notices_refused_total",
		"Notices that a receiver will not get, since there is no such receiver or too many wait.", "receiver", "kind")
	m.overdue = counters("jobd", "overdue_total", "Times that no Job has succeeded as was expected (jobd.dev/expect-success-every).", "kind")
	m.jobMemory = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "jobd", Name: "job_peak_memory_bytes",
		Help:    "The most memory that one container of a Job had at a time, of Jobs that have ended.",
		Buckets: prometheus.ExponentialBuckets(1<<20, 4, 11),
	})
	m.cronSkew = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds",
		Help:    "How late CronJobs have made their Jobs.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	})
	m.expiryDelay = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "ttl_after_finished_controller", Name: "job_deletion_duration_seconds",
		Help:    "How late finished Jobs were deleted whose TTL was over.",
		Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
	})
	m.passSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "jobd", Name: "loop_pass_duration_seconds",
		Help:    "How long a pass of the control loop took, until it was durable.",
		Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
	})
	m.passes = counters("jobd", "loop_passes_total", "Passes of the control loop.", "result")
	m.observations = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "jobd", Name: "loop_observations_total",
		Help: "Observations of containers that the control loop has taken in.",
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
	m.storeHistoryBytes = stat("store_history_bytes", "Bytes of former states that the database keeps for watchers.",
		func(st store.Stats) int64 { return st.HistoryBytes })
	m.all = append(m.all, m.jobMemory, m.syncSeconds, m.cronSkew, m.expiryDelay, m.passSeconds, m.observations, m.storeBytes,
		m.storeHistoryBytes)
	return m
}

// ShowStuck adds jobd_stuck_steps, whose value is what stuck returns when the metric is read. It is called before
// Register.
func (m *Metrics) ShowStuck(stuck func() int) {
	m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "jobd", Name: "stuck_steps",
		Help: "Steps of setting up, starting and tearing down pods that have taken more than two minutes and go on.",
	}, func() float64 { return float64(stuck()) }))
}

// Register adds the metrics to a registry until unregister is called.
func (m *Metrics) Register(r prometheus.Registerer) (unregister func(), err error) {
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
