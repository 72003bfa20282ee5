// Package answers answers what people ask of the daemon beyond stored objects: why something is in its state (Explainer), and
// how a Job looks at a glance (Pictures). Requests come in from api/server. It collects what is stored and what the control
// loop knows, and has the pure packages daemon/causes and daemon/picture make the answer of it. It changes nothing.
package answers

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

const (
	// explainTimeout is how long the control loop may take to answer.
	explainTimeout = 10 * time.Second
	// explainedPods is how many pods of a Job are read at most: an explanation names a few of them.
	explainedPods = 2000
)

// Sources is where answers come from.
type Sources struct {
	Store *store.Store
	Loop  Loop
	Logs  server.Logs
	// JobLogs are the logs of Jobs, with those of pods that are gone; nil for none.
	JobLogs server.JobLogs
	Aside   *aside.List
	// Forecasts say when Jobs are expected to start and to end; nil for nothing.
	Forecasts *Forecasts
	// Pressed returns why no pods start for want of disk or memory, by the taints that keep them away.
	Pressed func() map[string]causes.Pressure
	// TTL is that of Jobs that have none.
	TTL job.TTL
	// InUse returns the devices of a kind that other programs than pods use; nil: nobody looks (causes.World).
	InUse func(kind corev1.ResourceName) (used []gpus.GPU, looked bool)
}

// Loop is what the control loop knows beyond what is stored.
type Loop interface {
	PodFacts(ctx context.Context, p *corev1.Pod) (control.Facts, error)
	JobFacts(ctx context.Context, j *batchv1.Job) (control.Facts, error)
	// RunningPods returns the pods of a Job that run or are being stopped.
	RunningPods(ctx context.Context, of types.UID) ([]job.Running, error)
}

// Explainer collects what is stored, and what the control loop knows, for package causes. It implements
// server.Explainer.
type Explainer struct{ Sources }

// question is one request for an explanation.
type question struct {
	*Explainer
	ctx context.Context
	may func(resource, namespace string) bool
}

// Explain implements server.Explainer.
func (e *Explainer) Explain(ctx context.Context, of why.Reference, may func(resource, namespace string) bool) (*why.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	q := &question{e, ctx, may}
	var said *why.Explanation
	var err error
	switch of.Kind {
	case "Job":
		j := &batchv1.Job{}
		if err = q.read(objects.Jobs, of, j); err == nil {
			said, err = q.job(j)
		} else if apierrors.IsNotFound(err) {
			said, err = q.noJob(of, err)
		}
	case "Pod":
		p := &corev1.Pod{}
		if err = q.read(objects.Pods, of, p); err == nil {
			said, err = q.pod(p)
		}
	case "CronJob":
		cj := &batchv1.CronJob{}
		if err = q.read(objects.CronJobs, of, cj); err == nil {
			said, err = q.cronJob(cj)
		}
	case "JobSet":
		js := &jobsetv1.JobSet{}
		if err = q.read(objects.JobSets, of, js); err == nil {
			said, err = q.jobSet(js)
		}
	default:
		return nil, apierrors.NewBadRequest("nothing is explained of the kind " + of.Kind)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, apierrors.NewTimeoutError("the daemon is too busy to explain anything", 1)
	}
	return said, err
}

func (q *question) read(resource string, of why.Reference, into objects.Object) error {
	return q.Store.View(func(s *store.Snapshot) error {
		ok, err := objects.Read(s, store.Key(resource, of.Namespace, of.Name), into)
		if err == nil && !ok {
			return apierrors.NewNotFound(corev1.Resource(resource), of.Name)
		}
		return err
	})
}

func (q *question) job(j *batchv1.Job) (*why.Explanation, error) {
	if said := q.setAside("Job", objects.Jobs, j); said != nil {
		return said, nil
	}
	w := q.world()
	var pods []*corev1.Pod
	if err := q.Store.View(func(s *store.Snapshot) (err error) {
		if pods, err = q.podsOf(s, j); err != nil {
			return err
		}
		if err = q.dependents(s, &w, j); err != nil {
			return err
		}
		if w.Values, err = objects.IndexValues(s, j); err != nil {
			return err
		}
		if name, _ := batch.CronJobOf(j); name == "" { // of its Jobs a CronJob says what is expected
			if err = expected(s, &w, j.Namespace, j.Name); err != nil {
				return err
			}
		}
		if batch.AwaitsJobs(j) {
			if w.Needs, err = hold.Needs(s, j); err != nil {
				return err
			}
		}
		return q.events(s, &w, j, pods)
	}); err != nil {
		return nil, err
	}
	if batch.End(&j.Status) == nil {
		facts, err := q.Loop.JobFacts(q.ctx, j)
		if err != nil {
			return nil, err
		}
		if err := q.add(&w, facts); err != nil {
			return nil, err
		}
		if w.Forecast, err = q.forecast(j); err != nil {
			return nil, err
		}
	}
	return causes.Job(w, j, pods), nil
}

// noJob explains what is expected of Jobs of a name if there is no Job of that name; if nothing is expected, it returns the
// error.
func (q *question) noJob(of why.Reference, notFound error) (*why.Explanation, error) {
	w := q.world()
	if err := q.Store.View(func(s *store.Snapshot) error { return expected(s, &w, of.Namespace, of.Name) }); err != nil {
		return nil, err
	}
	if w.Expected == nil {
		return nil, notFound
	}
	return causes.NoJob(w, of.Namespace, of.Name), nil
}

// expected adds what is expected of the Jobs of a name.
func expected(s *store.Snapshot, w *causes.World, namespace, name string) error {
	m, err := notify.ReadMemory(s, namespace, notify.OfJobs+name, "")
	if m.Every > 0 {
		w.Expected = &m
	}
	return err
}

// controllerOf returns the Job that controls a pod; nil if none does.
func controllerOf(s *store.Snapshot, p *corev1.Pod) (*batchv1.Job, error) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || objects.ControllingJob(p) == "" {
		return nil, nil
	}
	j := &batchv1.Job{}
	ok, err := objects.Read(s, store.Key(objects.Jobs, p.Namespace, owner.Name), j)
	if err != nil || !ok || j.UID != owner.UID {
		return nil, err
	}
	return j, nil
}

func (q *question) pod(p *corev1.Pod) (*why.Explanation, error) {
	if said := q.setAside("Pod", objects.Pods, p); said != nil {
		return said, nil
	}
	w := q.world()
	var of *batchv1.Job
	if err := q.Store.View(func(s *store.Snapshot) (err error) {
		if of, err = controllerOf(s, p); err != nil {
			return err
		}
		if err = q.dependents(s, &w, p); err != nil {
			return err
		}
		if of != nil {
			if w.Values, err = objects.IndexValues(s, of); err != nil {
				return err
			}
		}
		return q.events(s, &w, p, nil)
	}); err != nil {
		return nil, err
	}
	facts, err := q.Loop.PodFacts(q.ctx, p)
	if err != nil {
		return nil, err
	}
	if err := q.add(&w, facts); err != nil {
		return nil, err
	}
	if of != nil {
		if w.Forecast, err = q.forecast(of); err != nil {
			return nil, err
		}
	}
	return causes.Pod(w, p, of), nil
}

func (q *question) world() causes.World {
	return causes.World{
		Now: time.Now(), Source: why.FromRecords, Missing: q.missing, Claim: q.claim, Peak: q.peak, Past: q.past, Log: q.log, Pressed: q.Pressed(),
		TTL: q.TTL, InUse: q.inUse(), ExitCodes: q.exitCodes, JobLog: q.jobLog, Forwarder: q.forwarder,
	}
}

// forecast returns what is expected of a Job; nil if nobody says.
func (q *question) forecast(j *batchv1.Job) (*forecast.Forecast, error) {
	if q.Forecasts == nil {
		return nil, nil
	}
	return q.Forecasts.forecast(q.ctx, j)
}

// setAside explains an object that the control loop leaves alone; nil if it does not.
func (q *question) setAside(kind, resource string, obj metav1.Object) *why.Explanation {
	key := objects.Key(resource, obj)
	for _, e := range q.Aside.Entries() {
		if e.Key == key {
			return causes.SetAside(q.world(), kind, obj, e.Message(), e.Final())
		}
	}
	return nil
}
