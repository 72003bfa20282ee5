// Package notices is the concern of notices in the control loop: it sees what becomes of Jobs, JobSets and CronJobs, lets package notify
// decide what that means to those who want to be told, and writes notices in the same transaction, so that none is lost and
// none comes twice. Package daemon/receivers delivers what is written.
//
// Without receivers the Teller does nothing for Jobs that ask for none, and the concern of expectations remains, which costs nothing
// for objects without its annotation.
package notices

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// A namespace may write this many notices to a receiver at once, and then one in every interval, so that a Job that starts others over
// and over fills nobody's mailbox. Pings do not count: they are short, and no more than two of a check wait.
const (
	burst    = 300
	interval = 10 * time.Second
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

// pending counts what waits for a receiver.
type pending struct {
	all int
	of  map[string]int // by namespace
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

// Key returns the key of a notice: by receiver, then in the order in which they are written, with the namespace for the count.
func Key(receiver string, version uint64, namespace string) string {
	return fmt.Sprintf("%s/%s/%016x.%s", objects.Notices, receiver, version, namespace)
}

// ReceiverOf returns the receiver in the key of a notice.
func ReceiverOf(key string) string {
	receiver, _ := objects.NameOf(key)
	return receiver
}

// count takes in that a notice was written, or is gone.
func (t *Teller) count(key string, n int) {
	receiver, name := objects.NameOf(key)
	_, namespace, _ := strings.Cut(name, ".")
	p := t.pending[receiver]
	if p == nil {
		p = &pending{of: map[string]int{}}
		t.pending[receiver] = p
	}
	p.all += n
	if p.of[namespace] += n; p.of[namespace] <= 0 {
		delete(p.of, namespace)
	}
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
	was, is := rec.seen, rec.seen.Then(j)
	rec.seen = is
	if !isNew && is == was && is.Started && !is.Ended {
		return nil // nothing that matters
	}
	cj, err := cronJobOf(p, j)
	if err != nil {
		return err
	}
	wanted := t.wanted(j, cj)
	if is != was && !t.idle(wanted) {
		if err := t.decide(p, j, cj, was, wanted); err != nil {
			return err
		}
	}
	if is.Ended {
		t.forget(p, key, j.UID, rec)
		return nil
	}
	var due time.Time
	if wanted.Wants(notices.Waits) && !is.Started && rec.mark.Waits != is.Attempt {
		due = notify.WaitsUntil(j, wanted.After)
	}
	t.timers.Set(t, key, due)
	m := rec.mark
	m.Elsewhere = !job.Managed(j) && len(wanted.Receivers) > 0
	if is.Started && (m.Elsewhere || t.tellsStarts(wanted)) {
		m.Started = is.Attempt
	}
	return t.putMark(p, key, j.UID, rec, m)
}

// idle reports whether there is nobody to be told of anything, and nobody has asked for that. Then nothing is remembered for it either.
func (t *Teller) idle(wanted notices.Wanted) bool {
	return len(t.receivers) == 0 && len(wanted.Receivers) == 0
}

// tellsStarts reports whether somebody is told of starts. Then it has to be remembered which Jobs have: the status does not say
// so of one whose pods do not run just now.
func (t *Teller) tellsStarts(w notices.Wanted) bool {
	return w.Wants(notices.StartedLate) || slices.ContainsFunc(w.Receivers, func(name string) bool {
		r := t.receivers[name]
		return r != nil && r.Healthcheck != nil
	})
}

func (t *Teller) putMark(p *loop.Pass, key string, uid types.UID, rec *record, m mark) error {
	if rec.mark == m {
		return nil
	}
	m.Key = key
	rec.mark = m
	value, err := json.Marshal(m)
	if err == nil {
		p.PutStored(store.Object{Key: markKey(uid), UID: string(uid), Value: value})
	}
	return err
}

// decide writes what a change of a Job means, which a CronJob controls, or none.
func (t *Teller) decide(p *loop.Pass, j *batchv1.Job, cj *batchv1.CronJob, was notify.Seen, wanted notices.Wanted) error {
	name, owner := nameOf(j, cj)
	memory, err := notify.ReadMemory(p, j.Namespace, name, owner)
	if err != nil {
		return err
	}
	said, after := notify.Decide(was, j, nameOfCronJob(cj), memory, wanted.After, p.Now)
	if len(wanted.Receivers) == 0 && !memory.Failed {
		after.Failed = false // nobody would be told that it has recovered
	}
	if cj == nil {
		if after, err = t.bounded(p, objects.JobReference(j), name, memory, after); err != nil {
			return err
		}
	}
	if err := putMemory(p, j.Namespace, name, owner, memory, after); err != nil {
		return err
	}
	for i := range said {
		if err := t.Tell(p, objects.JobReference(j), &said[i], wanted); err != nil {
			return err
		}
	}
	return nil
}

// bounded returns what is to be remembered under a name: nothing, which is told, if that is new and there is no room for it.
func (t *Teller) bounded(p *loop.Pass, about corev1.ObjectReference, name string, was, is notify.Memory) (notify.Memory, error) {
	if !was.Empty() || is.Empty() || t.remember(about.Namespace, name) {
		return is, nil
	}
	return notify.Memory{}, p.Event(about, events.ControllerOf(about.Kind), corev1.EventTypeWarning, NotDelivered, fmt.Sprintf(
		"nobody will be told when a %s of this name has recovered: %d others of this namespace have failed, of which that is remembered",
		about.Kind, maxRemembered,
	))
}

func nameOfCronJob(cj *batchv1.CronJob) string {
	if cj == nil {
		return ""
	}
	return cj.Name
}

// remember takes in that something is remembered of Jobs of a name, and reports whether there is room for that.
func (t *Teller) remember(namespace, name string) bool {
	names := t.remembered[namespace]
	if names == nil {
		names = map[string]bool{}
		t.remembered[namespace] = names
	}
	if !names[name] && len(names) >= maxRemembered {
		return false
	}
	names[name] = true
	return true
}

// Due tells that a Job or JobSet waits.
func (t *Teller) Due(p *loop.Pass, key string) error {
	if objects.ResourceOf(key) == objects.JobSets {
		return t.setDue(p, key)
	}
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok {
		return err
	}
	rec := t.known[j.UID]
	if rec == nil {
		return nil
	}
	cj, err := cronJobOf(p, j)
	if err != nil {
		return err
	}
	wanted := t.wanted(j, cj)
	until := notify.WaitsUntil(j, wanted.After)
	if until.IsZero() || rec.seen.Started || !wanted.Wants(notices.Waits) || rec.mark.Waits == rec.seen.Attempt {
		return nil
	}
	if until.After(p.Now) {
		t.timers.Set(t, key, until)
		return nil
	}
	n, m := notify.Waits(j, nameOfCronJob(cj), p.Now), rec.mark
	m.Waits = rec.seen.Attempt
	if err := t.putMark(p, key, j.UID, rec, m); err != nil {
		return err
	}
	return t.Tell(p, objects.JobReference(j), &n, wanted)
}

// wanted returns what a Job asks for, or what it belongs to: the CronJob that controls it, nil for none, and its namespace. Of the Jobs of
// a JobSet only those are told of that say so: the JobSet is told of as a whole.
func (t *Teller) wanted(j *batchv1.Job, cj *batchv1.CronJob) notices.Wanted {
	if set, _ := batch.SetOf(j); set != "" && len(notices.Names(j.Annotations)) == 0 {
		return notices.Wanted{}
	}
	var ofCronJob map[string]string
	if cj != nil {
		ofCronJob = cj.Annotations
	}
	return notices.Of(j.Annotations, ofCronJob, t.namespaces[j.Namespace])
}

// wantedOf returns what a CronJob asks for, or its namespace.
func (t *Teller) wantedOf(cj *batchv1.CronJob) notices.Wanted {
	return notices.Of(cj.Annotations, t.namespaces[cj.Namespace])
}

// Tell writes a notice to each receiver that is to be told of it. One that is not known, or has too much to be told already, is
// an event of the object.
func (t *Teller) Tell(p *loop.Pass, about corev1.ObjectReference, n *notify.Notice, wanted notices.Wanted) error {
	var value []byte
	for _, name := range slices.Sorted(slices.Values(wanted.Receivers)) {
		r := t.receivers[name]
		if r == nil {
			if !notify.Asked(n, wanted) {
				continue
			}
			if err := t.lost(p, about, n, name, "there is no receiver of that name in the settings of jobd"); err != nil {
				return err
			}
			continue
		}
		if !notify.Goes(n, r, wanted) {
			continue
		}
		if r.Healthcheck != nil {
			for _, key := range t.pings.replace(check{name, n.Name()}, n.PingOf()) {
				p.Delete(key)
				t.count(key, -1)
			}
		}
		if why := t.full(name, about.Namespace, r.Healthcheck == nil, p.Now); why != "" {
			if err := t.lost(p, about, n, name, why); err != nil {
				return err
			}
			continue
		}
		if value == nil {
			var err error
			if value, err = json.Marshal(notify.Pending{Notice: *n}); err != nil {
				return err
			}
		}
		key := Key(name, p.Version()+1, about.Namespace)
		p.PutStored(store.Object{Key: key, UID: n.Object.UID, Value: value})
		t.count(key, 1)
		if r.Healthcheck != nil {
			t.pings.add(check{name, n.Name()}, waiting{key, n.PingOf()})
		}
	}
	return nil
}

// full returns why a receiver takes no more notices of a namespace now; empty if it does. limited says that there is a limit to how
// many come in a time, too.
func (t *Teller) full(receiver, namespace string, limited bool, now time.Time) string {
	limits := t.allowed[namespace]
	if limits == nil {
		limits = map[string]*rate.Limiter{}
		t.allowed[namespace] = limits
	}
	limit := limits[receiver]
	if limit == nil {
		limit = rate.NewLimiter(rate.Every(interval), burst)
		limits[receiver] = limit
	}
	waits := t.pending[receiver]
	switch {
	case waits != nil && waits.all >= notify.MaxPending:
		return fmt.Sprintf("%d others wait for it", waits.all)
	case waits != nil && waits.of[namespace] >= notify.MaxNamespacePending:
		return fmt.Sprintf("%d others of this namespace wait for it", waits.of[namespace])
	case limited && !limit.AllowN(now, 1):
		return "this namespace has sent it too many lately"
	}
	return ""
}

// lost tells of a notice that is not delivered.
func (t *Teller) lost(p *loop.Pass, about corev1.ObjectReference, n *notify.Notice, receiver, why string) error {
	if err := t.refused(p, about, n, receiver, why); err != nil {
		return err
	}
	message := fmt.Sprintf("%s is not told of %q: %s", receiver, n.Kind, why)
	return p.Event(about, events.ControllerOf(about.Kind), corev1.EventTypeWarning, NotDelivered, message)
}

// NotDelivered is the reason of the event of a notice that a receiver will not get.
const NotDelivered = "NoticeNotDelivered"
