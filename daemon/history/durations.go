package history

import (
	"time"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

const (
	// durationsOfName is of how many runs of one name the durations are kept, the latest.
	durationsOfName = 20
	// durationPages is how many pages of the history are read for all names, and pagesOfName how many for a single one.
	durationPages = 4
	pagesOfName   = 2
)

// Durations are how long runs took that were successful, without the time in which they were paused.
type Durations struct {
	// Jobs are those of Jobs, from the start of their first pod to the end of their last, and Pods those of pods.
	Jobs, Pods []time.Duration
}

// RunName is what runs of the same have in common: the CronJob or, of a Job that has none, its own name.
func RunName(namespace, name, cronJob string) string {
	if cronJob != "" {
		return cronJobTerm(namespace, cronJob)
	}
	return nameTerm(namespace, name)
}

// AllDurations returns the durations of what has ended last, by RunName. How much it reads is bounded.
func AllDurations(s *store.Snapshot) (map[string]*Durations, error) {
	all := map[string]*Durations{}
	return all, durations(s, wire.Query{}, durationPages, all)
}

// DurationsOf returns the durations of the latest runs of a name.
func DurationsOf(s *store.Snapshot, namespace, name, cronJob string) (*Durations, error) {
	q := wire.Query{Namespace: namespace, CronJob: cronJob, Limit: durationsOfName}
	if cronJob == "" {
		q.Name = name
	}
	all := map[string]*Durations{}
	if err := durations(s, q, pagesOfName, all); err != nil {
		return nil, err
	}
	if d := all[RunName(namespace, name, cronJob)]; d != nil {
		return d, nil
	}
	return &Durations{}, nil
}

// durations adds what the first pages of a query have.
func durations(s *store.Snapshot, q wire.Query, pages int, to map[string]*Durations) error {
	tenancies := map[string]wire.Tenancy{}
	of := func(j *wire.Job) (wire.Tenancy, error) {
		t, known := tenancies[j.Namespace]
		if known {
			return t, nil
		}
		t, err := TenancyOf(s, j.Namespace)
		tenancies[j.Namespace] = t
		return t, err
	}
	former := "" // UID of a Job that ran in a former namespace, whose parts do not say so
	for q.Pods = true; pages > 0; pages-- {
		page, next, err := Read(s, q)
		if err != nil {
			return err
		}
		for i := range page {
			j := &page[i]
			if j.Part && j.UID == former {
				continue
			}
			if tenancy, err := of(j); err != nil {
				return err
			} else if !j.Part && !tenancy.Has(j) {
				former = j.UID
				continue
			}
			name := RunName(j.Namespace, j.Name, j.CronJob)
			if j.Part { // it does not say of which CronJob it is
				name = RunName(j.Namespace, j.Name, "")
			}
			d := to[name]
			if d == nil {
				d = &Durations{}
				to[name] = d
			}
			d.add(j)
		}
		if q.Continue = next; next == "" {
			break
		}
	}
	return nil
}

// add adds a Job that has ended, or a part of one.
func (d *Durations) add(j *wire.Job) {
	var first, last time.Time
	var paused time.Duration // of all pods
	for i := range j.Pods {
		p := &j.Pods[i]
		if p.Started == nil {
			continue
		}
		if p.Result == wire.PodSucceeded && len(d.Pods) < durationsOfName {
			d.Pods = append(d.Pods, p.Ran())
		}
		paused += p.Paused()
		if first.IsZero() || p.Started.Time.Before(first) {
			first = p.Started.Time
		}
		if p.Ended.After(last) {
			last = p.Ended.Time
		}
	}
	if j.Part || j.Result != wire.Complete || len(d.Jobs) == durationsOfName {
		return
	}
	if whole := len(j.Pods) == j.Succeeded+j.Failed+j.Stopped; !whole || first.IsZero() {
		if j.Started == nil {
			return
		}
		first, last, paused = j.Started.Time, j.Ended.Time, j.Paused()
	}
	// A pause of the Job may have begun before its first pod, and each of several pods has been in it.
	d.Jobs = append(d.Jobs, max(0, last.Sub(first)-min(paused, j.Paused())))
}
