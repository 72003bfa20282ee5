package notices

import (
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// rebuildSets notes which JobSets there were at the start, with their marks. What is left of marks is of those that are gone.
func (t *Teller) rebuildSets(s *store.Snapshot) {
	s.Range(objects.JobSets+"/", "", func(o store.Object) bool {
		m := t.marks[o.Key]
		if m.uid == types.UID(o.UID) {
			delete(t.marks, o.Key)
		} else {
			m = stored{}
		}
		t.sets[types.UID(o.UID)] = m.mark
		return true
	})
}

// JobSetDecided lets it be decided what it means that a JobSet is as it is after a decision. begun says that a pod of it has run, and
// finished that it had finished before.
func (t *Teller) JobSetDecided(p *loop.Pass, key string, js *jobsetv1.JobSet, begun, finished bool) error {
	is := notify.SeeSet(js, begun)
	rec := t.known[js.UID]
	if rec == nil {
		m, recovered := t.sets[js.UID]
		delete(t.sets, js.UID)
		if finished || !jobset.Managed(js) { // then somebody else ends it
			if m.Key != "" {
				p.Delete(markKey(js.UID))
			}
			return nil
		}
		rec = &record{seen: notify.Seen{Attempt: is.Attempt}, mark: m}
		if recovered {
			rec.seen.Started = begun || js.Status.Restarts > 0 || m.Started == is.Attempt
		}
		t.known[js.UID] = rec
	}
	is.Started = is.Started || rec.seen.Started
	return t.take(p, key, rec, t.ofJobSet(js, is), false)
}

// setGone takes in that a JobSet is gone.
func (t *Teller) setGone(p *loop.Pass, key string, uid types.UID) {
	if m, ok := t.sets[uid]; ok {
		delete(t.sets, uid)
		if m.Key != "" {
			p.Delete(markKey(uid))
		}
	}
	if rec := t.known[uid]; rec != nil {
		t.forget(p, key, uid, rec)
	}
}
