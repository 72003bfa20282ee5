package metrics

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/job"
)

// Figures are what a pass adds to the metrics. They are held back until the pass is durable, since decisions that are
// taken again must not be counted twice.
type Figures struct {
	// Observations is how many observations of containers were taken in.
	Observations int
	// PodsRunning, PodsWaiting and UnfinishedJobs are the present numbers.
	PodsRunning, PodsWaiting, UnfinishedJobs int

	metrics  *Metrics
	counts   map[count]int
	syncs    []synced
	skews    []time.Duration
	expiries []time.Duration // how late each was
	ended    []history.Job
	gone     []string // namespaces
}

type count struct {
	of     *prometheus.CounterVec
	n      int // of the labels
	labels [3]string
}

// synced is one decision for a Job.
type synced struct {
	mode, action string
	took         time.Duration
}

// Figures returns the empty figures of a new pass.
func (m *Metrics) Figures() Figures { return Figures{metrics: m} }

func (f *Figures) add(n int, of *prometheus.CounterVec, labels ...string) {
	if n <= 0 {
		return
	}
	if f.counts == nil {
		f.counts = map[count]int{}
	}
	c := count{of: of, n: len(labels)}
	copy(c.labels[:], labels)
	f.counts[c] += n
}

// Passed adds a pass to the metrics once it is known whether it was written.
func (m *Metrics) Passed(f *Figures, took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.passSeconds.Observe(took.Seconds())
	m.passes.WithLabelValues(result).Inc()
	for _, s := range f.syncs {
		m.syncs.WithLabelValues(s.mode, result, s.action).Inc()
		m.syncSeconds.WithLabelValues(s.mode, result, s.action).Observe(s.took.Seconds())
	}
	if err != nil {
		return
	}
	for c, n := range f.counts {
		c.of.WithLabelValues(c.labels[:c.n]...).Add(float64(n))
	}
	for _, skew := range f.skews {
		m.cronSkew.Observe(skew.Seconds())
	}
	for _, late := range f.expiries {
		m.expiryDelay.Observe(late.Seconds())
	}
	for i := range f.ended {
		j := &f.ended[i]
		m.jobCPU.WithLabelValues(j.Namespace, j.Result).Add(j.CPUSeconds)
		if j.PeakMemory > 0 {
			m.jobMemory.Observe(float64(j.PeakMemory))
		}
	}
	for _, namespace := range f.gone {
		for _, of := range []*prometheus.CounterVec{m.jobCPU, m.setsFailed, m.setsCompleted} {
			of.DeletePartialMatch(prometheus.Labels{"namespace": namespace})
		}
		maps.DeleteFunc(m.sets, func(of [2]string, _ bool) bool { return of[1] == namespace })
	}
	m.observations.Add(float64(f.Observations))
	m.podsRunning.Set(float64(f.PodsRunning))
	m.podsWaiting.Set(float64(f.PodsWaiting))
	m.jobRecords.Set(float64(f.UnfinishedJobs))
}

// JobSynced counts a decision for a Job and how long it took.
func (f *Figures) JobSynced(mode string, d job.Decision, took time.Duration) {
	f.syncs = append(f.syncs, synced{mode, action(d), took})
}

// JobElsewhere counts a new Job that another controller manages (JobSpec.ManagedBy).
func (f *Figures) JobElsewhere(manager string) {
	f.add(1, f.metrics.jobsElsewhere, f.metrics.managers.known(manager))
}

// JobSetEnded counts a JobSet that has finished, by its success or not, as the controller of a cluster does.
func (f *Figures) JobSetEnded(name, namespace string, completed bool) {
	of := f.metrics.setsFailed
	if completed {
		of = f.metrics.setsCompleted
	}
	name, namespace = f.metrics.sets.known(name, namespace)
	f.add(1, of, name, namespace)
}

// NoticeRefused counts a notice that is not written: too many wait, or there is no such receiver.
func (f *Figures) NoticeRefused(receiver, kind string) {
	f.add(1, f.metrics.noticesRefused, receiver, kind)
}

// Overdue counts that no Job has succeeded in time: of a CronJob, or of Jobs of one name.
func (f *Figures) Overdue(kind string) { f.add(1, f.metrics.overdue, kind) }

// JobExpired counts a Job that was deleted because its TTL has passed, and how late that was.
func (f *Figures) JobExpired(late time.Duration) { f.expiries = append(f.expiries, late) }

// CronJobStarted counts a Job that a CronJob has created, and how late that was.
func (f *Figures) CronJobStarted(late time.Duration) { f.skews = append(f.skews, late) }

// JobEnded counts what a Job has used that has ended.
func (f *Figures) JobEnded(j history.Job) { f.ended = append(f.ended, j) }

// NamespaceGone has the metrics of a namespace that was removed left out from now on: each would be kept for ever.
func (f *Figures) NamespaceGone(name string) { f.gone = append(f.gone, name) }

// JobDecided counts what was decided for a Job; j still has the old status.
func (f *Figures) JobDecided(j *batchv1.Job, d job.Decision) {
	m, mode := f.metrics, string(ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion))
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
		f.indexes(j, next)
	}
	if c := batch.End(next); c != nil && batch.End(&j.Status) == nil {
		result := failed
		if c.Type == batchv1.JobComplete {
			result = succeeded
		}
		f.add(1, m.jobsFinished, mode, result, knownReason(c.Reason))
	}
}

// indexes counts the indexes that have finished. Succeeded is their number in an Indexed Job.
func (f *Figures) indexes(j *batchv1.Job, next *batchv1.JobStatus) {
	limit := "global"
	if j.Spec.BackoffLimitPerIndex != nil {
		limit = "perIndex"
	}
	f.add(int(next.Succeeded-j.Status.Succeeded), f.metrics.indexesFinished, succeeded, limit)
	before, now := ptr.Deref(j.Status.FailedIndexes, ""), ptr.Deref(next.FailedIndexes, "")
	if before != now {
		n := ptr.Deref(j.Spec.Completions, 0)
		f.add(job.ParseIndexes(now, n).Len()-job.ParseIndexes(before, n).Len(), f.metrics.indexesFinished, failed,
			limit)
	}
}

// PodCreated counts a pod by the reason for its creation.
func (f *Figures) PodCreated(j *batchv1.Job) { f.created(j, succeeded) }

// PodRefused counts a pod that could not be created.
func (f *Figures) PodRefused(j *batchv1.Job) { f.created(j, failed) }

func (f *Figures) created(j *batchv1.Job, status string) {
	reason := "new"
	switch {
	case j.Status.Failed > 0 && ptr.Deref(j.Spec.PodReplacementPolicy, "") == batchv1.Failed:
		reason = "recreate_failed"
	case j.Status.Failed > 0 || ptr.Deref(j.Status.Terminating, 0) > 0:
		reason = "recreate_terminating_or_failed"
	}
	f.add(1, f.metrics.podsCreated, reason, status)
}

// FinalizerAdded counts a pod that has ended while its Job tracks it.
func (f *Figures) FinalizerAdded(p *corev1.Pod) { f.finalizer(p, "add") }

// FinalizerDeleted counts an ended pod that its Job no longer tracks.
func (f *Figures) FinalizerDeleted(p *corev1.Pod) { f.finalizer(p, "delete") }

func (f *Figures) finalizer(p *corev1.Pod, event string) {
	if podspec.Ended(p) {
		f.add(1, f.metrics.finalizers, event)
	}
}

// action returns the label for what a decision did.
func action(d job.Decision) string {
	switch {
	case len(d.Create) > 0:
		return "pods_created"
	case len(d.Delete) > 0:
		return "pods_deleted"
	}
	return "tracking"
}
