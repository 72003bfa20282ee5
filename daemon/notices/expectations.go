package notices

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

const (
	// overdueReason is that of the event.
	overdueReason = "Overdue"
	// maxExpected is how many names of Jobs a namespace may have that a success is expected of.
	maxExpected = 200
	// abandoned is for how long a name is overdue before nothing is expected of it any more.
	abandoned = 30 * 24 * time.Hour
)

// Expectations is the controller that notices what does not happen: that no Job of a CronJob, or of a name, has succeeded
// within the time that an annotation gives. It has a timer for each, so that it does not matter why.
type Expectations struct {
	loop.Base
	loop.NoJobs
	timers *loop.Timers
	teller *Teller

	// names are the Jobs of one name of which a success is expected, by the key of what is stored; counts is how many there
	// are in a namespace.
	names  map[string]bool
	counts map[string]int
	// orphans are what is remembered of CronJobs that went while the daemon did not run.
	orphans []string
}

// NewExpectations makes the controller.
func NewExpectations(timers *loop.Timers, teller *Teller) *Expectations {
	return &Expectations{timers: timers, teller: teller, names: map[string]bool{}, counts: map[string]int{}}
}

// Rebuild implements loop.Controller.
func (e *Expectations) Rebuild(s *store.Snapshot, now time.Time) (err error) {
	s.Range(objects.NoticeMemories+"/", "", func(o store.Object) bool {
		var m notify.Memory
		if err = json.Unmarshal(o.Value, &m); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		if m.Every > 0 {
			e.add(o.Key)
			e.timers.Set(e, o.Key, dueOf(m))
		}
		namespace, stored := objects.NameOf(o.Key)
		if name, ok := strings.CutPrefix(stored, notify.OfCronJob); ok {
			if cj, ok := s.Get(store.Key(objects.CronJobs, namespace, name)); !ok || cj.UID != o.UID {
				e.orphans = append(e.orphans, o.Key)
			}
		}
		return true
	})
	s.Range(objects.CronJobs+"/", "", func(o store.Object) bool {
		if err == nil && bytes.Contains(o.Value, []byte(notices.EveryAnnotation)) {
			cj := &batchv1.CronJob{}
			if err = objects.Decode(o, cj); err == nil {
				e.expect(o.Key, cj, now)
			}
		}
		return err == nil
	})
	return err
}

// Dirty implements loop.Controller.
func (e *Expectations) Dirty() bool { return len(e.orphans) > 0 }

// Settle removes what is remembered of a CronJob that is gone.
func (e *Expectations) Settle(p *loop.Pass) (bool, error) {
	if len(e.orphans) == 0 {
		return false, nil
	}
	p.Delete(e.orphans[0])
	e.orphans = e.orphans[1:]
	return true, nil
}

func (e *Expectations) add(key string) {
	if !e.names[key] {
		namespace, _ := objects.NameOf(key)
		e.names[key] = true
		e.counts[namespace]++
	}
}

func (e *Expectations) drop(key string) {
	if e.names[key] {
		namespace, _ := objects.NameOf(key)
		delete(e.names, key)
		if e.counts[namespace]--; e.counts[namespace] == 0 {
			delete(e.counts, namespace)
		}
		e.timers.Set(e, key, time.Time{})
	}
}

// expect sets the timer of a CronJob.
func (e *Expectations) expect(key string, cj *batchv1.CronJob, now time.Time) {
	e.timers.Set(e, key, notices.Expect(cj.Annotations, cj.CreationTimestamp, cj.Status.LastSuccessfulTime, now).Due)
}

// dueOf returns when something is due for Jobs of one name: a success, or, once that is overdue, to forget them.
func dueOf(m notify.Memory) time.Time {
	if m.Overdue != nil {
		return m.Due().Add(abandoned)
	}
	return m.Due()
}

// Fold takes in what clients write to CronJobs.
func (e *Expectations) Fold(p *loop.Pass, change loop.Change) error {
	if change.Resource != objects.CronJobs || change.Deleted {
		return nil
	}
	says := func(o *store.Object) bool {
		return o != nil && bytes.Contains(o.Value, []byte(notices.EveryAnnotation))
	}
	if !says(change.Previous) && !says(&change.Object) {
		return nil
	}
	cj, ok, err := p.CronJobs.Get(change.Object.Key)
	if err == nil && ok {
		e.expect(change.Object.Key, cj, p.Now)
	}
	return err
}

// Gone implements loop.GoneFollower.
func (e *Expectations) Gone(p *loop.Pass, o store.Object) {
	switch objects.ResourceOf(o.Key) {
	case objects.CronJobs:
		namespace, name := objects.NameOf(o.Key)
		e.timers.Set(e, o.Key, time.Time{})
		p.Delete(notify.MemoryKey(namespace, notify.OfCronJob+name))
	case objects.NoticeMemories:
		e.drop(o.Key)
	}
}

// JobChanged takes in that a Job expects its name to succeed, no longer does so, or has succeeded.
func (e *Expectations) JobChanged(p *loop.Pass, _ string, j *batchv1.Job) error {
	if claimsCronJob(j) {
		return nil // its CronJob says what is expected, also once that is gone
	}
	every := notices.Every(j.Annotations)
	if every == 0 && len(e.names) == 0 {
		return nil
	}
	key := notify.MemoryKey(j.Namespace, notify.OfJobs+j.Name)
	if every == 0 && !e.names[key] {
		return nil
	}
	was, err := notify.ReadMemory(p, j.Namespace, notify.OfJobs+j.Name, "")
	if err != nil {
		return err
	}
	is := was
	if every == 0 {
		is.Every, is.Since, is.Last, is.Wanted, is.Overdue = 0, time.Time{}, nil, nil, nil
		e.drop(key)
		return putMemory(p, j.Namespace, notify.OfJobs+j.Name, "", was, is)
	}
	if !e.names[key] {
		namespace, _ := objects.NameOf(key)
		if e.counts[namespace] >= maxExpected {
			return p.Event(objects.JobReference(j), events.JobController, corev1.EventTypeWarning, "NotExpected", fmt.Sprintf(
				"%s has no effect: it is given for %d names of Jobs in this namespace already", notices.EveryAnnotation, maxExpected,
			))
		}
		is.Since = j.CreationTimestamp.Time
		e.add(key)
	}
	is.Every = every
	due := dueOf(is)
	wanted := notices.Of(j.Annotations, e.teller.namespaces[j.Namespace])
	if is.Wanted = &wanted; e.teller.idle(wanted) {
		is.Wanted = nil
	}
	if end := batch.End(&j.Status); end != nil && end.Type == batchv1.JobComplete && !end.LastTransitionTime.Time.Before(is.Since) {
		is = is.Succeeded(end.LastTransitionTime.Time)
		due = is.Due()
		if e.teller.idle(wanted) { // which else says that it has recovered
			is.Overdue = nil
		}
	}
	if err := putMemory(p, j.Namespace, notify.OfJobs+j.Name, "", was, is); err != nil {
		return err
	}
	e.timers.Set(e, key, due)
	return nil
}

// Due looks at an expectation whose time has come.
func (e *Expectations) Due(p *loop.Pass, key string) error {
	if objects.ResourceOf(key) == objects.NoticeMemories {
		return e.nameDue(p, key)
	}
	cj, ok, err := p.CronJobs.Get(key)
	if err != nil || !ok || cj.DeletionTimestamp != nil {
		return err
	}
	late := notices.Expect(cj.Annotations, cj.CreationTimestamp, cj.Status.LastSuccessfulTime, p.Now)
	if !late.Overdue {
		e.timers.Set(e, key, late.Due)
		return nil
	}
	// It is looked at again after a success that comes now; then the time since that counts.
	e.timers.Set(e, key, p.Now.Add(notices.Every(cj.Annotations)))
	was, err := notify.ReadMemory(p, cj.Namespace, notify.OfCronJob+cj.Name, cj.UID)
	if err != nil || was.Overdue != nil && was.Overdue.Equal(late.Due) {
		return err
	}
	is := was
	is.Overdue = &late.Due
	if err := putMemory(p, cj.Namespace, notify.OfCronJob+cj.Name, cj.UID, was, is); err != nil {
		return err
	}
	n := notify.CronJobOverdue(cj, late.Due, p.Now)
	return e.tell(p, objects.CronJobReference(cj), events.CronJobController, &n, e.teller.wantedOf(cj))
}

// nameDue looks at Jobs of one name.
func (e *Expectations) nameDue(p *loop.Pass, key string) error {
	namespace, stored := objects.NameOf(key)
	was, err := notify.ReadMemory(p, namespace, stored, "")
	if err != nil || was.Every == 0 {
		return err
	}
	due := dueOf(was)
	switch {
	case p.Now.Before(due):
		e.timers.Set(e, key, due)
		return nil
	case was.Overdue != nil:
		e.drop(key)
		p.Delete(key)
		return nil
	}
	is := was
	is.Overdue = &due
	if err := putMemory(p, namespace, stored, "", was, is); err != nil {
		return err
	}
	e.timers.Set(e, key, dueOf(is))
	name := strings.TrimPrefix(stored, notify.OfJobs)
	n := notify.JobsOverdue(namespace, name, was, p.Now)
	about := corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: namespace, Name: name}
	if j, ok, err := p.Jobs.Get(store.Key(objects.Jobs, namespace, name)); err != nil {
		return err
	} else if ok {
		about = objects.JobReference(j)
		n.Object.UID = string(j.UID)
	}
	var wanted notices.Wanted
	if was.Wanted != nil {
		wanted = *was.Wanted
	}
	return e.tell(p, about, events.JobController, &n, wanted)
}

func (e *Expectations) tell(p *loop.Pass, about corev1.ObjectReference, component string, n *notify.Notice, wanted notices.Wanted) error {
	p.Figures.Overdue(n.Object.Kind)
	if err := p.Event(about, component, corev1.EventTypeWarning, overdueReason, n.Message); err != nil {
		return err
	}
	return e.teller.Tell(p, about, n, wanted)
}
