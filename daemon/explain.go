package daemon

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/cron"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

const (
	// explainTimeout is how long the control loop may take to answer.
	explainTimeout = 10 * time.Second
	// explainedPods is how many pods of a Job are read at most: an explanation names a few of them.
	explainedPods = 2000
	// logLines and logBytes are how much is shown of what a container has written.
	logLines = 10
	logBytes = 4 << 10
)

// explainer collects what is stored, and what the control loop knows, for package causes. It implements
// server.Explainer.
type explainer struct {
	store   *store.Store
	control *control.Control
	logs    server.Logs
	aside   *aside.List
	// disk returns why no pods start for want of disk; nil if that is not so.
	disk func() *causes.DiskPressure
}

// question is one request for an explanation.
type question struct {
	*explainer
	ctx context.Context
	may func(resource, namespace string) bool
}

// Explain implements server.Explainer.
func (e *explainer) Explain(ctx context.Context, of why.Reference, may func(resource, namespace string) bool) (*why.Explanation, error) {
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
	default:
		return nil, apierrors.NewBadRequest("nothing is explained of the kind " + of.Kind)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, apierrors.NewTimeoutError("the daemon is too busy to explain anything", 1)
	}
	return said, err
}

func (q *question) read(resource string, of why.Reference, into objects.Object) error {
	return q.store.View(func(s *store.Snapshot) error {
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
	if err := q.store.View(func(s *store.Snapshot) (err error) {
		if pods, err = q.podsOf(s, j); err != nil {
			return err
		}
		return q.events(s, &w, j, pods)
	}); err != nil {
		return nil, err
	}
	if batch.End(&j.Status) == nil {
		facts, err := q.control.JobFacts(q.ctx, j)
		if err != nil {
			return nil, err
		}
		if err := q.add(&w, facts); err != nil {
			return nil, err
		}
	}
	return causes.Job(w, j, pods), nil
}

func (q *question) pod(p *corev1.Pod) (*why.Explanation, error) {
	if said := q.setAside("Pod", objects.Pods, p); said != nil {
		return said, nil
	}
	w := q.world()
	var of *batchv1.Job
	if err := q.store.View(func(s *store.Snapshot) error {
		if owner := metav1.GetControllerOfNoCopy(p); owner != nil && objects.ControllingJob(p) != "" {
			j := &batchv1.Job{}
			if ok, err := objects.Read(s, store.Key(objects.Jobs, p.Namespace, owner.Name), j); err != nil {
				return err
			} else if ok && j.UID == owner.UID {
				of = j
			}
		}
		return q.events(s, &w, p, nil)
	}); err != nil {
		return nil, err
	}
	facts, err := q.control.PodFacts(q.ctx, p)
	if err != nil {
		return nil, err
	}
	if err := q.add(&w, facts); err != nil {
		return nil, err
	}
	return causes.Pod(w, p, of), nil
}

func (q *question) cronJob(cj *batchv1.CronJob) (*why.Explanation, error) {
	if said := q.setAside("CronJob", objects.CronJobs, cj); said != nil {
		return said, nil
	}
	w := q.world()
	var jobs []*batchv1.Job
	if err := q.store.View(func(s *store.Snapshot) (err error) {
		s.Owned(string(cj.UID), "", func(key string) bool {
			if objects.ResourceOf(key) != objects.Jobs {
				return true
			}
			j := &batchv1.Job{}
			var ok bool
			if ok, err = objects.Read(s, key, j); ok && err == nil && cron.Controller(j) == cj.UID {
				jobs = append(jobs, j)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
		if w.ScheduledSince, err = control.ScheduledSince(s, cj); err != nil {
			return err
		}
		return q.events(s, &w, cj, nil)
	}); err != nil {
		return nil, err
	}
	var last *why.Explanation
	if j := causes.LastEnded(jobs); j != nil && batch.End(&j.Status).Type == batchv1.JobFailed && q.may("jobs.batch", j.Namespace) {
		var err error
		if last, err = q.job(j); err != nil {
			return nil, err
		}
	}
	return causes.CronJob(w, cj, jobs, last), nil
}

func (q *question) world() causes.World {
	return causes.World{
		Now: time.Now(), Source: why.FromRecords, Missing: q.missing, Claim: q.claim, Peak: q.peak, Log: q.log, Disk: q.disk(),
	}
}

// setAside explains an object that the control loop leaves alone; nil if it does not.
func (q *question) setAside(kind, resource string, obj metav1.Object) *why.Explanation {
	key := objects.Key(resource, obj)
	for _, e := range q.aside.Entries() {
		if e.Key == key {
			return causes.SetAside(q.world(), kind, obj, e.Message(), e.Final())
		}
	}
	return nil
}

// peak returns the most memory that a container had which ran out of it.
func (q *question) peak(p *corev1.Pod, container string) (peak int64) {
	_ = q.store.View(func(s *store.Snapshot) error {
		if o, ok := s.Get(store.Key(objects.Usages, "", string(p.UID))); ok {
			if used, err := history.DecodePod(o.Value); err == nil {
				peak = used.OOMPeaks[container]
			}
		}
		return nil
	})
	return peak
}

// podsOf returns the pods of a Job that have not succeeded, as many as are explained.
func (q *question) podsOf(s *store.Snapshot, j *batchv1.Job) (pods []*corev1.Pod, err error) {
	if !q.may("pods", j.Namespace) {
		return nil, nil
	}
	s.Owned(string(j.UID), "", func(key string) bool {
		if objects.ResourceOf(key) != objects.Pods {
			return true
		}
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
	// Events are named after their objects, and so are pods after their Jobs.
	s.Range(store.Key(objects.Events, of.GetNamespace(), of.GetName()), "", func(o store.Object) bool {
		part := &corev1.Event{} // a Job of 100,000 pods has several events of each
		if err = scheme.DecodePart(o.Value, eventSubject, part); err != nil || !wanted[part.InvolvedObject.UID] {
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

var eventSubject = scheme.FieldsOf[corev1.Event]("involvedObject.uid")

// add adds what the control loop knows.
func (q *question) add(w *causes.World, f control.Facts) error {
	w.Rooms, w.Launchings, w.Standing, w.Node = f.Rooms, f.Launchings, f.Standing, f.Node
	w.Holders, w.Claims = map[types.UID]causes.Holder{}, map[types.UID]causes.ClaimWait{}
	return q.store.View(func(s *store.Snapshot) error {
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
			told.Volume, told.Hosts = wait.Volume, node.Selects(pv.Spec.NodeAffinity.Required)
		}
	}
	if namespace, name := objects.NameOf(wait.User); wait.User != "" && q.may("pods", namespace) {
		told.User = &why.Reference{Kind: "Pod", Namespace: namespace, Name: name}
	}
	return told, nil
}

// deadline returns when a pod's own deadline, or that of its Job, ends it at the latest; zero for never.
func (q *question) deadline(s *store.Snapshot, p *corev1.Pod) (ends time.Time, err error) {
	note := func(start *metav1.Time, limit *int64) {
		if start == nil || limit == nil {
			return
		}
		if at := start.Add(podspec.Seconds(*limit)); ends.IsZero() || at.Before(ends) {
			ends = at
		}
	}
	note(p.Status.StartTime, p.Spec.ActiveDeadlineSeconds)
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil && objects.ControllingJob(p) != "" {
		j := &batchv1.Job{}
		ok, err := objects.Read(s, store.Key(objects.Jobs, p.Namespace, owner.Name), j)
		if err != nil {
			return ends, err
		}
		if ok && !ptr.Deref(j.Spec.Suspend, false) {
			note(j.Status.StartTime, j.Spec.ActiveDeadlineSeconds)
		}
	}
	return ends, nil
}

func (q *question) missing(kind, namespace, name string) (missing, known bool) {
	resource := map[string]string{
		"ConfigMap": objects.ConfigMaps, "Secret": objects.Secrets, "PersistentVolumeClaim": objects.Claims,
	}[kind]
	err := q.store.View(func(s *store.Snapshot) error {
		_, ok := s.Get(store.Key(resource, namespace, name))
		missing = !ok
		return nil
	})
	return missing, err == nil
}

// claim returns a claim and the last event about it; nil for what there is not.
func (q *question) claim(namespace, name string) (obj *corev1.PersistentVolumeClaim, last *corev1.Event) {
	if !q.may("persistentvolumeclaims", namespace) {
		return nil, nil
	}
	if err := q.store.View(func(s *store.Snapshot) error {
		c := &corev1.PersistentVolumeClaim{}
		if ok, err := objects.Read(s, store.Key(objects.Claims, namespace, name), c); err != nil || !ok {
			return err
		}
		w := causes.World{}
		obj = c
		if err := q.events(s, &w, c, nil); err != nil {
			return err
		}
		last = w.Last(c.UID)
		return nil
	}); err != nil {
		return nil, nil
	}
	return obj, last
}

// log returns the last lines that a container has written; nothing if they cannot be had.
func (q *question) log(p *corev1.Pod, container string, previous bool) (lines []string) {
	if !q.may("pods/log", p.Namespace) {
		return nil
	}
	r, err := q.logs.Open(q.ctx, p, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: ptr.To[int64](logLines), LimitBytes: ptr.To[int64](logBytes),
	})
	if err != nil {
		return nil
	}
	defer r.Close()
	for text := bufio.NewScanner(r); text.Scan(); {
		lines = append(lines, text.Text())
	}
	return lines
}

// explainDisk returns why no pods start for want of disk; nil if that is not so.
func (d *daemon) explainDisk() *causes.DiskPressure {
	if d.diskPressure == nil {
		return nil
	}
	s := d.diskPressure.Shortage()
	if !s.On {
		return nil
	}
	return &causes.DiskPressure{
		Path: d.config.Root, What: cmp.Or(s.What, "seen before this start of jobd"), Short: s.Short, Seen: s.Seen, Until: s.Until,
	}
}
