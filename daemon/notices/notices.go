// Package notices is the concern of notices in the control loop. It sees what becomes of Jobs, JobSets and CronJobs, has
// package notify decide who is told what, and writes the notices in the same transaction, so that none is lost and none comes
// twice. Package daemon/receivers delivers what is written.
//
// Without receivers the Teller does nothing for Jobs that ask for none, and the concern of expectations remains, which costs nothing
// for objects without its annotation.
package notices

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Teller is the controller that writes notices.
type Teller struct {
	loop.Base
	loop.NoJobs
	timers    *loop.Timers
	receivers notify.Receivers

	known map[types.UID]*record // Jobs and JobSets that have not ended
	// sets are the JobSets that were there at the start, with their marks, until they are decided on.
	sets map[types.UID]mark
	// marks are what is stored of those that have to be remembered over a restart, by the Job's key, until Jobs are recovered.
	marks map[string]stored
	// recovered are Jobs to look at that were there at the start: others may have ended them meanwhile, or they wait.
	recovered map[types.UID]string

	namespaces map[string]map[string]string        // annotations of those that ask for something
	pending    map[string]*pending                 // by receiver
	allowed    map[string]map[string]*rate.Limiter // by namespace and receiver
	pings      pings
	strangers  map[string]bool            // names that the settings do not have, of which something is stored
	remembered map[string]map[string]bool // names of Jobs of which something is remembered, by namespace
}

// record is what is known of a Job.
type record struct {
	seen notify.Seen
	mark mark
}

// mark is what has to be remembered of a Job or JobSet while it has not ended.
type mark struct {
	Key string `json:"key"` // of the Job or JobSet
	// Elsewhere: another controller ends it, in a transaction that is not ours.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Waits is the attempt of which it was told that it waits.
	Waits int `json:"waits,omitempty"`
	// Started is the attempt of which it was told that it has started.
	Started int `json:"started,omitempty"`
}

// stored is a mark of the Job that has a UID.
type stored struct {
	mark
	uid types.UID
}

// NewTeller makes the controller. Without receivers there is nobody to be told, and whoever asks for that is told so.
func NewTeller(timers *loop.Timers, receivers notify.Receivers) *Teller {
	return &Teller{
		timers: timers, receivers: receivers, known: map[types.UID]*record{}, sets: map[types.UID]mark{},
		marks: map[string]stored{}, recovered: map[types.UID]string{},
		namespaces: map[string]map[string]string{}, pending: map[string]*pending{}, allowed: map[string]map[string]*rate.Limiter{},
		strangers:  map[string]bool{},
		pings:      pings{of: map[check][]waiting{}, checks: map[string]check{}},
		remembered: map[string]map[string]bool{},
	}
}

// Rebuild implements loop.Controller.
func (t *Teller) Rebuild(s *store.Snapshot, _ time.Time) (err error) {
	s.Keys(objects.Notices+"/", "", func(key string) bool {
		t.count(key, 1)
		return true
	})
	for name, r := range t.receivers {
		if r.Healthcheck == nil {
			continue
		}
		s.Range(objects.Notices+"/"+name+"/", "", func(o store.Object) bool {
			var n notify.Pending
			if json.Unmarshal(o.Value, &n) == nil { // or else it is told when it is to be delivered
				t.pings.add(check{name, n.Name()}, waiting{o.Key, n.PingOf()})
			}
			return true
		})
	}
	s.Range(objects.NoticeMarks+"/", "", func(o store.Object) bool {
		var m mark
		if err = json.Unmarshal(o.Value, &m); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		t.marks[m.Key] = stored{m, types.UID(o.UID)}
		return true
	})
	if err != nil {
		return err
	}
	t.rebuildSets(s)
	s.Keys(objects.NoticeStandings+"/", "", func(key string) bool {
		if _, name := objects.NameOf(key); t.receivers[name] == nil && name != notices.Others {
			t.strangers[name] = true
		}
		return true
	})
	s.Keys(objects.NoticeMemories+"/", "", func(key string) bool {
		if namespace, name := objects.NameOf(key); strings.HasPrefix(name, notify.OfJobs) || strings.HasPrefix(name, notify.OfJobSets) {
			t.remember(namespace, name)
		}
		return true
	})
	return nil
}

// NamespaceKnown takes in what a namespace asks for.
func (t *Teller) NamespaceKnown(ns *corev1.Namespace) {
	delete(t.namespaces, ns.Name)
	if notices.Asks(ns.Annotations) {
		t.namespaces[ns.Name] = ns.Annotations
	}
}

// NamespaceChanged implements loop.NamespaceFollower.
func (t *Teller) NamespaceChanged(_ *loop.Pass, ns *corev1.Namespace) error {
	t.NamespaceKnown(ns)
	return nil
}

// NamespaceGone implements loop.NamespaceFollower.
func (t *Teller) NamespaceGone(_ *loop.Pass, name string) error {
	delete(t.namespaces, name)
	delete(t.allowed, name)
	return nil
}

// Fold takes in which notices were delivered.
func (t *Teller) Fold(_ *loop.Pass, change loop.Change) error {
	if change.Resource == objects.Notices && change.Deleted {
		t.count(change.Object.Key, -1)
		t.pings.gone(change.Object.Key)
	}
	return nil
}

// Gone implements loop.GoneFollower.
func (t *Teller) Gone(p *loop.Pass, o store.Object) {
	namespace, name := objects.NameOf(o.Key)
	switch objects.ResourceOf(o.Key) {
	case objects.NoticeStandings:
		delete(t.strangers, name)
		return
	case objects.JobSets:
		t.setGone(p, o.Key, types.UID(o.UID))
		return
	case objects.NoticeMemories:
	default:
		return
	}
	if delete(t.remembered[namespace], name); len(t.remembered[namespace]) == 0 {
		delete(t.remembered, namespace)
	}
}

// JobRecovered implements loop.JobFollower.
func (t *Teller) JobRecovered(key string, j *batchv1.Job) {
	m := t.marks[key]
	if !objects.Finished(j) {
		if m.uid == j.UID {
			delete(t.marks, key)
		} else {
			m = stored{} // that is of another Job
		}
		rec := &record{notify.See(j), m.mark}
		told := m.Started == rec.seen.Attempt
		if rec.seen.Started = rec.seen.Started || told; m.Elsewhere { // what has happened since was not seen
			rec.seen.Started = told
		}
		t.known[j.UID] = rec
		mayTell := claimsCronJob(j) || notices.Of(j.Annotations, t.namespaces[j.Namespace]).Wants(notices.Waits)
		if m.Elsewhere || !rec.seen.Started && mayTell {
			t.recovered[j.UID] = key
		}
		return
	}
	if m.uid != "" { // no more is decoded of j than its end
		delete(t.marks, key)
		t.known[m.uid] = &record{notify.Seen{Started: m.Started > 0, Attempt: 1}, m.mark}
		t.recovered[m.uid] = key
	}
}

// Dirty implements loop.Controller.
func (t *Teller) Dirty() bool { return len(t.recovered) > 0 || len(t.marks) > 0 }

// Settle looks at a Job that was recovered, and then removes marks of those that are gone.
func (t *Teller) Settle(p *loop.Pass) (bool, error) {
	for uid, key := range t.recovered {
		delete(t.recovered, uid)
		j, ok, err := p.Jobs.Get(key)
		if err != nil {
			return true, err
		}
		if !ok || j.UID != uid {
			t.forget(p, key, uid, t.known[uid])
			return true, nil
		}
		return true, t.JobChanged(p, key, j)
	}
	for key, m := range t.marks {
		delete(t.marks, key)
		p.Delete(markKey(m.uid))
		return true, nil
	}
	return false, nil
}

func markKey(uid types.UID) string { return store.Key(objects.NoticeMarks, "", string(uid)) }

// JobGone implements loop.JobFollower.
func (t *Teller) JobGone(p *loop.Pass, key string, j *batchv1.Job) {
	if rec := t.known[j.UID]; rec != nil {
		t.forget(p, key, j.UID, rec)
	}
}

func (t *Teller) forget(p *loop.Pass, key string, uid types.UID, rec *record) {
	t.timers.Set(t, key, time.Time{})
	if rec.mark.Key != "" {
		p.Delete(markKey(uid))
	}
	delete(t.known, uid)
	delete(t.recovered, uid)
}

// JobChanged lets it be decided what a change of a Job means.
func (t *Teller) JobChanged(p *loop.Pass, key string, j *batchv1.Job) error {
	rec := t.known[j.UID]
	if rec == nil && objects.Finished(j) {
		return nil // it had ended before
	}
	isNew := rec == nil
	if isNew {
		rec = &record{seen: notify.Seen{Attempt: notify.See(j).Attempt}}
		t.known[j.UID] = rec
	}
	is := rec.seen.Then(j)
	if !isNew && is == rec.seen && is.Started && !is.Ended {
		return nil // nothing that matters
	}
	s, err := t.ofJob(p, j, is)
	if err != nil {
		return err
	}
	return t.take(p, key, rec, s, !job.Managed(j) && len(s.wanted.Receivers) > 0)
}

// Due tells that a Job or JobSet waits.
func (t *Teller) Due(p *loop.Pass, key string) error {
	if objects.ResourceOf(key) == objects.JobSets {
		js := &jobsetv1.JobSet{}
		if ok, err := objects.Read(p, key, js); err != nil || !ok {
			return err
		}
		if rec := t.known[js.UID]; rec != nil {
			return t.tellWaits(p, key, rec, t.ofJobSet(js, rec.seen))
		}
		return nil
	}
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok {
		return err
	}
	rec := t.known[j.UID]
	if rec == nil {
		return nil
	}
	s, err := t.ofJob(p, j, rec.seen.Then(j))
	if err != nil {
		return err
	}
	return t.tellWaits(p, key, rec, s)
}
