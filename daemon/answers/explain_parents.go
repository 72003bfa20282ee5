package answers

import (
	batchv1 "k8s.io/api/batch/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes/parents"
	"github.com/jobd/jobd/daemon/cronjobs"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

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
