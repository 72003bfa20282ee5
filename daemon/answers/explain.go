// Package answers answers what people ask of the daemon beyond stored objects: why something is in its state (Explainer), and
// how a Job looks at a glance (Pictures). Requests come in from api/server. It collects what is stored and what the control
// loop knows, and has the pure packages daemon/causes and daemon/picture make the answer of it. It changes nothing.
package answers

import (
	"context"
	"errors"
	"slices"
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
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/causes/parents"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/cronjobs"
	"github.com/jobd/jobd/daemon/dependents"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
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
	// Disk returns why no pods start for want of disk; nil if that is not so.
	Disk func() *causes.DiskPressure
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

// noJob explains what is expected of the name of a Job that there is not; where that is nothing, it returns the error.
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

func (q *question) pod(p *corev1.Pod) (*why.Explanation, error) {
	if said := q.setAside("Pod", objects.Pods, p); said != nil {
		return said, nil
	}
	w := q.world()
	var of *batchv1.Job
	if err := q.Store.View(func(s *store.Snapshot) error {
		if owner := metav1.GetControllerOfNoCopy(p); owner != nil && objects.ControllingJob(p) != "" {
			j := &batchv1.Job{}
			if ok, err := objects.Read(s, store.Key(objects.Jobs, p.Namespace, owner.Name), j); err != nil {
				return err
			} else if ok && j.UID == owner.UID {
				of = j
			}
		}
		if err := q.dependents(s, &w, p); err != nil {
			return err
		}
		if of != nil {
			var err error
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

func (q *question) cronJob(cj *batchv1.CronJob) (*why.Explanation, error) {
	if said := q.setAside("CronJob", objects.CronJobs, cj); said != nil {
		return said, nil
	}
	w := q.world()
	var jobs []*batchv1.Job
	if err := q.Store.View(func(s *store.Snapshot) (err error) {
		s.Owned(string(cj.UID), store.Key(objects.Jobs, cj.Namespace, ""), "", func(key string) bool {
			j := &batchv1.Job{}
			var ok bool
			if ok, err = objects.Read(s, key, j); ok && err == nil && batch.IsRunOf(j, cj) {
				jobs = append(jobs, j)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
		if w.ScheduledSince, err = cronjobs.ScheduledSince(s, cj); err != nil {
			return err
		}
		if err = q.dependents(s, &w, cj); err != nil {
			return err
		}
		return q.events(s, &w, cj, nil)
	}); err != nil {
		return nil, err
	}
	var last *why.Explanation
	if j := parents.LastEnded(jobs); j != nil && batch.End(&j.Status).Type == batchv1.JobFailed && q.may("jobs.batch", j.Namespace) {
		var err error
		if last, err = q.job(j); err != nil {
			return nil, err
		}
	}
	return parents.CronJob(w, cj, jobs, last), nil
}

func (q *question) jobSet(js *jobsetv1.JobSet) (*why.Explanation, error) {
	if said := q.setAside("JobSet", objects.JobSets, js); said != nil {
		return said, nil
	}
	w := q.world()
	var jobs []*batchv1.Job
	if err := q.Store.View(func(s *store.Snapshot) (err error) {
		read := 0 // more Jobs than that are not looked at: an explanation names a few of them
		s.Owned(string(js.UID), store.Key(objects.Jobs, js.Namespace, ""), "", func(key string) bool {
			j := &batchv1.Job{}
			var ok bool
			if ok, err = objects.Read(s, key, j); ok && err == nil {
				if _, owner := batch.SetOf(j); owner == js.UID {
					jobs = append(jobs, j)
				}
			}
			read++
			return err == nil && read < explainedPods
		})
		if err != nil {
			return err
		}
		if first := jobset.FirstFailed(&js.Status); first != "" && read == explainedPods {
			j := &batchv1.Job{}
			if ok, err := objects.Read(s, store.Key(objects.Jobs, js.Namespace, first), j); err != nil {
				return err
			} else if _, owner := batch.SetOf(j); ok && owner == js.UID {
				jobs = append(jobs, j)
			}
		}
		if err = q.dependents(s, &w, js); err != nil {
			return err
		}
		if jobset.Awaits(js) {
			if w.Needs, err = hold.Needs(s, js); err != nil {
				return err
			}
		}
		return q.events(s, &w, js, nil)
	}); err != nil {
		return nil, err
	}
	var told *why.Explanation
	if j := parents.JobOfSet(js, jobs); j != nil && q.may("jobs.batch", j.Namespace) {
		var err error
		if told, err = q.job(j); err != nil {
			return nil, err
		}
	}
	return parents.JobSet(w, js, jobs, told), nil
}

func (q *question) world() causes.World {
	return causes.World{
		Now: time.Now(), Source: why.FromRecords, Missing: q.missing, Claim: q.claim, Peak: q.peak, Past: q.past, Log: q.log, Disk: q.Disk(),
		TTL: q.TTL, InUse: q.inUse(), ExitCodes: q.exitCodes, JobLog: q.jobLog, Forwarder: q.forwarder,
	}
}

// inUse returns what tells who uses devices. Which processes the users of the host run is for administrators only.
func (q *question) inUse() func(corev1.ResourceName) ([]gpus.GPU, bool) {
	if q.InUse == nil {
		return nil
	}
	return func(kind corev1.ResourceName) (used []gpus.GPU, looked bool) {
		used, looked = q.InUse(kind)
		if !q.may(gpus.Processes+"."+gpus.Group, "") {
			for i := range used {
				used[i].Processes = nil
			}
		}
		return used, looked
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

// peak returns the most memory that a container had which ran out of it.
func (q *question) peak(p *corev1.Pod, container string) (peak int64) {
	_ = q.Store.View(func(s *store.Snapshot) error {
		if o, ok := s.Get(store.Key(objects.Usages, "", string(p.UID))); ok {
			if used, err := history.DecodePod(o.Value); err == nil {
				peak = used.OOMPeaks[container]
			}
		}
		return nil
	})
	return peak
}

// past returns what the former runs of a Job have used in this namespace. One page of the history is read, so that this costs no more
// than any request for it.
func (q *question) past(j *batchv1.Job) (runs wire.Runs) {
	if !q.may("jobs."+wire.Group, j.Namespace) {
		return runs
	}
	_ = q.Store.View(func(s *store.Snapshot) error {
		of := wire.RunsOf(j)
		var err error
		if of.Within, err = history.TenancyOf(s, j.Namespace); err != nil {
			return err
		}
		jobs, _, err := history.Read(s, of)
		if err == nil {
			runs = wire.Sum(jobs)
		}
		return err
	})
	return runs
}

// exitCodes returns those that the history has of the pods of a Job.
func (q *question) exitCodes(j *batchv1.Job) (codes []wire.ExitCode) {
	if !q.may("jobs."+wire.Group, j.Namespace) {
		return nil
	}
	_ = q.Store.View(func(s *store.Snapshot) error {
		jobs, _, err := history.Read(s, wire.Query{Namespace: j.Namespace, Name: j.Name, Since: j.CreationTimestamp.Time, Limit: 10})
		if at := slices.IndexFunc(jobs, func(of wire.Job) bool { return of.UID == string(j.UID) && !of.Part }); err == nil && at >= 0 {
			codes = jobs[at].ExitCodes
		}
		return err
	})
	return codes
}

// podsOf returns the pods of a Job that have not succeeded, as many as are explained.
func (q *question) podsOf(s *store.Snapshot, j *batchv1.Job) (pods []*corev1.Pod, err error) {
	if !q.may("pods", j.Namespace) {
		return nil, nil
	}
	s.Owned(string(j.UID), store.Key(objects.Pods, j.Namespace, ""), "", func(key string) bool {
		o, ok := s.Get(key)
		if !ok {
			return true
		}
		part := &corev1.Pod{}
		if err = scheme.DecodePart(o.Value, objects.PodEnd, part); err != nil {
			return false
		}
		if part.Status.Phase == corev1.PodSucceeded {
			return true
		}
		p := &corev1.Pod{}
		if err = objects.Decode(o, p); err == nil && objects.ControllingJob(p) == j.UID {
			pods = append(pods, p)
		}
		return err == nil && len(pods) < explainedPods
	})
	return pods, err
}

// events adds the events about an object, and about pods of it.
func (q *question) events(s *store.Snapshot, w *causes.World, of objects.Object, pods []*corev1.Pod) (err error) {
	wanted := map[types.UID]bool{of.GetUID(): true}
	for _, p := range pods {
		wanted[p.UID] = true
	}
	if err = q.eventsAbout(s, w, of, func(e *corev1.Event) bool { return wanted[e.InvolvedObject.UID] }); err != nil {
		return err
	}
	j, is := of.(*batchv1.Job)
	if !is || !causes.LeavesNoPods(j) || !q.may("pods", j.Namespace) {
		return nil
	}
	gone := causes.PodsOf(w.Events)
	return q.eventsAbout(s, w, of, func(e *corev1.Event) bool {
		return e.InvolvedObject.Kind == "Pod" && gone.Has(e.InvolvedObject.Name) && !wanted[e.InvolvedObject.UID]
	})
}

// eventsAbout adds the events about an object, or about pods of it, that are wanted.
func (q *question) eventsAbout(s *store.Snapshot, w *causes.World, of objects.Object, wanted func(*corev1.Event) bool) (err error) {
	// Events are named after their objects, and so are pods after their Jobs.
	s.Range(store.Key(objects.Events, of.GetNamespace(), of.GetName()), "", func(o store.Object) bool {
		part := &corev1.Event{} // a Job of 100,000 pods has several events of each
		if err = scheme.DecodePart(o.Value, eventSubject, part); err != nil || !wanted(part) {
			return err == nil
		}
		e := &corev1.Event{}
		if err = objects.Decode(o, e); err == nil {
			w.Events = append(w.Events, *e)
		}
		return err == nil
	})
	return err
}

// dependents adds those for which the deletion of an object in the foreground waits.
func (q *question) dependents(s *store.Snapshot, w *causes.World, of objects.Object) (err error) {
	if !dependents.Awaits(of) {
		return nil
	}
	seen := 0
	s.Owned(string(of.GetUID()), "", "", func(key string) bool {
		k := objects.Served()[objects.ResourceOf(key)]
		if k == nil || storage.Hidden(key) {
			return true
		}
		obj, ok := k.New().(objects.Object)
		if !ok {
			return true
		}
		var there bool
		if there, err = objects.Read(s, key, obj); err != nil || !there || !storage.BlocksOwner(obj, of) {
			return err == nil
		}
		if q.may(objects.ResourceOf(key), obj.GetNamespace()) {
			w.Dependents.Add(dependents.Dependent{Object: obj, Kind: k.Name, Stranger: gc.Stranger(obj)})
		} else {
			w.Dependents.Others++
		}
		seen++
		return seen < explainedPods
	})
	return err
}

var eventSubject = scheme.FieldsOf[corev1.Event]("involvedObject.uid", "involvedObject.kind", "involvedObject.name")

// add adds what the control loop knows.
func (q *question) add(w *causes.World, f control.Facts) error {
	w.Rooms, w.Launchings, w.Standing, w.Node, w.Group = f.Rooms, f.Launchings, f.Standing, f.Node, f.Group
	w.Holders, w.Claims = map[types.UID]causes.Holder{}, map[types.UID]causes.ClaimWait{}
	return q.Store.View(func(s *store.Snapshot) error {
		for uid, wait := range f.Claims {
			told, err := q.claimWait(s, wait)
			if err != nil {
				return err
			}
			w.Claims[uid] = told
		}
		for uid, key := range f.Holders {
			namespace, name := objects.NameOf(key)
			p := &corev1.Pod{}
			if ok, err := objects.Read(s, key, p); err != nil {
				return err
			} else if !ok || p.UID != uid || !q.may("pods", namespace) {
				continue
			}
			ends, err := q.deadline(s, p)
			if err != nil {
				return err
			}
			w.Holders[uid] = causes.Holder{Object: why.Reference{Kind: "Pod", Namespace: namespace, Name: name}, Ends: ends}
		}
		return nil
	})
}

// claimWait adds to a claim that a pod waits for what is stored of its volume, and of the pod that uses it.
func (q *question) claimWait(s *store.Snapshot, wait control.ClaimWait) (causes.ClaimWait, error) {
	told := causes.ClaimWait{Claim: wait.Claim, Why: wait.Why}
	if wait.Volume != "" {
		pv := &corev1.PersistentVolume{}
		ok, err := objects.Read(s, store.Key(objects.Volumes, "", wait.Volume), pv)
		if err != nil {
			return told, err
		}
		if ok && pv.Spec.NodeAffinity != nil && pv.Spec.NodeAffinity.Required != nil {
			told.Volume, told.Hosts = wait.Volume, fit.Selects(pv.Spec.NodeAffinity.Required)
		}
	}
	if namespace, name := objects.NameOf(wait.User); wait.User != "" && q.may("pods", namespace) {
		told.User = &why.Reference{Kind: "Pod", Namespace: namespace, Name: name}
	}
	return told, nil
}

// deadline returns when a pod's own deadline, or that of its Job, ends it at the latest; zero for never.
func (q *question) deadline(s *store.Snapshot, p *corev1.Pod) (ends time.Time, err error) {
	note := func(at time.Time, ok bool) {
		if ok && (ends.IsZero() || at.Before(ends)) {
			ends = at
		}
	}
	note(pod.Deadline(p))
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil && objects.ControllingJob(p) != "" {
		j := &batchv1.Job{}
		ok, err := objects.Read(s, store.Key(objects.Jobs, p.Namespace, owner.Name), j)
		if err != nil {
			return ends, err
		}
		if ok {
			note(batch.Deadline(j))
		}
	}
	return ends, nil
}

func (q *question) missing(kind, namespace, name string) (missing, known bool) {
	resource := map[string]string{
		"ConfigMap": objects.ConfigMaps, "Secret": objects.Secrets, "PersistentVolumeClaim": objects.Claims,
	}[kind]
	err := q.Store.View(func(s *store.Snapshot) error {
		_, ok := s.Get(store.Key(resource, namespace, name))
		missing = !ok
		return nil
	})
	return missing, err == nil
}

// forwarder reports whether a forwarder serves a cluster.
func (q *question) forwarder(cluster string) (served, known bool) {
	err := q.Store.View(func(s *store.Snapshot) (err error) {
		served, err = objects.Forwarder(s, cluster, time.Now())
		return err
	})
	return served, err == nil
}

// claim returns a claim and the last event about it; nil for what there is not.
func (q *question) claim(namespace, name string) (obj *corev1.PersistentVolumeClaim, last *corev1.Event) {
	if !q.may("persistentvolumeclaims", namespace) {
		return nil, nil
	}
	if err := q.Store.View(func(s *store.Snapshot) error {
		c := &corev1.PersistentVolumeClaim{}
		if ok, err := objects.Read(s, store.Key(objects.Claims, namespace, name), c); err != nil || !ok {
			return err
		}
		w := causes.World{}
		obj = c
		if err := q.events(s, &w, c, nil); err != nil {
			return err
		}
		last = w.LastEvent(c.UID)
		return nil
	}); err != nil {
		return nil, nil
	}
	return obj, last
}

// log returns the last lines that a container has written; nothing if they cannot be had.
func (q *question) log(p *corev1.Pod, container string, previous bool) []string {
	if !q.may("pods/log", p.Namespace) {
		return nil
	}
	return why.LogLines(q.Logs.Open(q.ctx, p, why.LogOptions(container, previous)))
}

// jobLog returns the last lines of a Job, also of pods that are gone; nothing if they cannot be had.
func (q *question) jobLog(j *batchv1.Job) []string {
	if q.JobLogs == nil || !q.may("jobs.batch/log", j.Namespace) {
		return nil
	}
	of := why.LogOptions("", false)
	return why.LogLines(q.JobLogs.OpenJob(q.ctx, j, &batch.JobLogOptions{TailLines: of.TailLines, LimitBytes: of.LimitBytes}))
}
