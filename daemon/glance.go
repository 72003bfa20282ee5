package daemon

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// readJobs makes the records of the Jobs that are not finished, and gives the keys of all of them. One that is finished
// and has pods that are not done with gets its record from readPods.
func (r *records) readJobs(s *store.Snapshot, now time.Time) (keys map[types.UID]string, err error) {
	keys = map[types.UID]string{}
	s.Range(jobs+"/", "", func(o store.Object) bool {
		keys[types.UID(o.UID)] = o.Key
		j := newJob()
		if err = scheme.DecodePart(o.Value, jobEnd, j); err == nil && finished(j) && len(o.Owners) == 0 {
			r.noteJob(o.Key, j)
			return true
		}
		j = newJob()
		if err = decode(o, j); err == nil {
			r.noteJob(o.Key, j)
			r.crons.setJob(j)
			err = r.setJob(s, o.Key, j, now)
		}
		return err == nil
	})
	return keys, err
}

// readPods calls fn for the pods that something is left to be done for, whose Jobs have records then.
func (r *records) readPods(s *store.Snapshot, jobs map[types.UID]string, now time.Time, fn func(key string, p *corev1.Pod) error) (err error) {
	s.Range(pods+"/", "", func(o store.Object) bool {
		if r.settled(o, jobs) {
			return true
		}
		p := newPod()
		if err = decode(o, p); err != nil {
			return false
		}
		owner := controllingJob(p)
		if key, ok := jobs[owner]; ok && r.jobs[owner] == nil {
			err = r.readJob(s, key, now)
		}
		if err == nil {
			err = fn(o.Key, p)
		}
		return err == nil
	})
	return err
}

// settled tells whether a stored pod is done with, and so are those who may have something to do with it.
func (r *records) settled(o store.Object, jobs map[types.UID]string) bool {
	p := newPod()
	if scheme.DecodePart(o.Value, podEnd, p) != nil || !done(p) {
		return false
	}
	for _, owner := range o.Owners {
		if _, lives := jobs[types.UID(owner)]; !lives {
			return false
		}
	}
	return len(r.selectors) == 0 // else somebody may adopt it
}

func (r *records) readJob(s *store.Snapshot, key string, now time.Time) error {
	o, ok := s.Get(key)
	if !ok {
		return nil
	}
	j := newJob()
	if err := decode(o, j); err != nil {
		return err
	}
	return r.setJob(s, key, j, now)
}
