package answers

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/gpus"
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

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
