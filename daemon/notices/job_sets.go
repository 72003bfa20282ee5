package notices

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/notices"
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
	was := rec.seen
	is.Started = is.Started || was.Started
	rec.seen = is
	wanted := t.wantedOfSet(js)
	if is != was && !t.idle(wanted) {
		if err := t.decideOnSet(p, js, was, is, wanted); err != nil {
			return err
		}
	}
	if is.Ended {
		t.forget(p, key, js.UID, rec)
		return nil
	}
	var due time.Time
	if wanted.Wants(notices.Waits) && rec.mark.Waits != is.Attempt {
		due = notify.SetWaitsUntil(js, is, wanted.After)
	}
	t.timers.Set(t, key, due)
	m := rec.mark
	if is.Started && t.tellsStarts(wanted) {
		m.Started = is.Attempt
	}
	return t.putMark(p, key, js.UID, rec, m)
}

// wantedOfSet returns what a JobSet asks for, or its namespace.
func (t *Teller) wantedOfSet(js *jobsetv1.JobSet) notices.Wanted {
	return notices.Of(js.Annotations, t.namespaces[js.Namespace])
}

// decideOnSet writes what a change of a JobSet means.
func (t *Teller) decideOnSet(p *loop.Pass, js *jobsetv1.JobSet, was, is notify.Seen, wanted notices.Wanted) error {
	name := notify.OfJobSets + js.Name
	memory, err := notify.ReadMemory(p, js.Namespace, name, "")
	if err != nil {
		return err
	}
	said, after := notify.DecideSet(was, is, js, memory, wanted.After, p.Now)
	if len(wanted.Receivers) == 0 && !memory.Failed {
		after.Failed = false // nobody would be told that it has recovered
	}
	about := objects.JobSetReference(js)
	if after, err = t.bounded(p, about, name, memory, after); err != nil {
		return err
	}
	if err := putMemory(p, js.Namespace, name, "", memory, after); err != nil {
		return err
	}
	for i := range said {
		if err := t.Tell(p, about, &said[i], wanted); err != nil {
			return err
		}
	}
	return nil
}

// setDue tells that a JobSet waits.
func (t *Teller) setDue(p *loop.Pass, key string) error {
	js := &jobsetv1.JobSet{}
	ok, err := objects.Read(p, key, js)
	if err != nil || !ok {
		return err
	}
	rec, wanted := t.known[js.UID], t.wantedOfSet(js)
	if rec == nil || !wanted.Wants(notices.Waits) || rec.mark.Waits == rec.seen.Attempt {
		return nil
	}
	until := notify.SetWaitsUntil(js, rec.seen, wanted.After)
	if until.IsZero() {
		return nil
	}
	if until.After(p.Now) {
		t.timers.Set(t, key, until)
		return nil
	}
	n, m := notify.SetWaits(js, p.Now), rec.mark
	m.Waits = rec.seen.Attempt
	if err := t.putMark(p, key, js.UID, rec, m); err != nil {
		return err
	}
	return t.Tell(p, objects.JobSetReference(js), &n, wanted)
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
