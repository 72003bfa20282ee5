package notices

import (
	"encoding/json"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// subject is a Job or JobSet that somebody may be told of.
type subject struct {
	notify.Work
	about  corev1.ObjectReference
	wanted notices.Wanted
	name   string    // under which something is remembered
	owner  types.UID // of the CronJob whose name that is; empty for none
}

func (t *Teller) ofJob(p *loop.Pass, j *batchv1.Job, seen notify.Seen) (s subject, err error) {
	cj, err := cronJobOf(p, j)
	if err != nil {
		return s, err
	}
	s = subject{about: objects.JobReference(j), wanted: t.wanted(j, cj), name: notify.OfJobs + j.Name}
	cronJob := ""
	if cj != nil {
		cronJob, s.name, s.owner = cj.Name, notify.OfCronJob+cj.Name, cj.UID
	}
	s.Work = notify.OfJob(j, seen, cronJob)
	return s, nil
}

func (t *Teller) ofJobSet(js *jobsetv1.JobSet, seen notify.Seen) subject {
	return subject{
		Work: notify.OfJobSet(js, seen), about: objects.JobSetReference(js), name: notify.OfJobSets + js.Name,
		wanted: notices.Of(js.Annotations, t.namespaces[js.Namespace]),
	}
}

// claimsCronJob reports whether a Job says that a CronJob controls it. Whoever creates a Job may say so of any.
func claimsCronJob(j *batchv1.Job) bool {
	name, _ := batch.CronJobOf(j)
	return name != ""
}

// cronJobOf returns the CronJob that controls a Job; nil if none does. It is one that exists, and has the UID that the Job says.
func cronJobOf(p *loop.Pass, j *batchv1.Job) (*batchv1.CronJob, error) {
	name, uid := batch.CronJobOf(j)
	if name == "" {
		return nil, nil
	}
	cj, ok, err := p.CronJobs.Get(store.Key(objects.CronJobs, j.Namespace, name))
	if err != nil || !ok || cj.UID != uid {
		return nil, err
	}
	return cj, nil
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

// take takes in the state of a Job or JobSet: it writes what is new of it, and remembers what has to be remembered. elsewhere says that
// another controller ends it.
func (t *Teller) take(p *loop.Pass, key string, rec *record, s subject, elsewhere bool) error {
	was := rec.seen
	rec.seen = s.Seen
	if s.Seen != was && !t.idle(s.wanted) {
		if err := t.decide(p, was, s); err != nil {
			return err
		}
	}
	if s.Ended {
		t.forget(p, key, s.about.UID, rec)
		return nil
	}
	var due time.Time
	if s.wanted.Wants(notices.Waits) && rec.mark.Waits != s.Attempt {
		due = s.WaitsUntil(s.wanted.After)
	}
	t.timers.Set(t, key, due)
	m := rec.mark
	m.Elsewhere = elsewhere
	if s.Started && (elsewhere || t.tellsStarts(s.wanted)) {
		m.Started = s.Attempt
	}
	return t.putMark(p, key, s.about.UID, rec, m)
}

// decide writes what is new of a Job or JobSet.
func (t *Teller) decide(p *loop.Pass, was notify.Seen, s subject) error {
	memory, err := notify.ReadMemory(p, s.about.Namespace, s.name, s.owner)
	if err != nil {
		return err
	}
	said, after := notify.Decide(was, s.Work, memory, s.wanted.After, p.Now)
	if len(s.wanted.Receivers) == 0 && !memory.Failed {
		after.Failed = false // nobody would be told that it has recovered
	}
	if s.owner == "" {
		if after, err = t.bounded(p, s.about, s.name, memory, after); err != nil {
			return err
		}
	}
	if err := putMemory(p, s.about.Namespace, s.name, s.owner, memory, after); err != nil {
		return err
	}
	for i := range said {
		if err := t.Tell(p, s.about, &said[i], s.wanted); err != nil {
			return err
		}
	}
	return nil
}

// tellWaits tells once in an attempt that a Job or JobSet waits, or has itself called when it is time for that.
func (t *Teller) tellWaits(p *loop.Pass, key string, rec *record, s subject) error {
	until := s.WaitsUntil(s.wanted.After)
	if until.IsZero() || !s.wanted.Wants(notices.Waits) || rec.mark.Waits == s.Attempt {
		return nil
	}
	if until.After(p.Now) {
		t.timers.Set(t, key, until)
		return nil
	}
	n, m := s.Waits(p.Now), rec.mark
	m.Waits = s.Attempt
	if err := t.putMark(p, key, s.about.UID, rec, m); err != nil {
		return err
	}
	return t.Tell(p, s.about, &n, s.wanted)
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
