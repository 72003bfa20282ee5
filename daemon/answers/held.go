package answers

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/forecast"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/store"
)

// heldSteps is how many Jobs are looked up, for those that wait for them, before what is on the machine is looked up anew.
const heldSteps = 1000

// pastSteps is what it costs to search the history for a Job that is gone.
const pastSteps = heldSteps / 50

// tooMany is why nothing is known of Jobs that would cost more.
const tooMany = "too many Jobs wait for one another to look at all of them"

// moment is when something is expected, or else why nobody knows: a part of a sentence.
type moment struct {
	at  *wire.Expected
	why string
}

func unknown(format string, args ...any) moment { return moment{why: fmt.Sprintf(format, args...)} }

// ahead looks ahead on behalf of Jobs that others, or their groups, hold back. What it finds is kept as long as what is on the machine.
type ahead struct {
	*Forecasts
	now    time.Time
	plan   *forecast.Plan
	groups map[[2]string]hold.Line
	// queued are the Jobs of which pods wait for room.
	queued map[types.UID]bool
	starts map[types.UID]moment
	ends   map[string]moment // by key
	places map[[2]string]*places
	steps  int
}

// places are when a concurrency group has places for those that come next, and why nobody knows if there are none.
type places struct {
	forecast.Places
	why string
	// starts are when those are expected to start that wait, by key.
	starts map[string]moment
}

// isHeld reports whether something that is looked at here holds a Job back.
func (a *ahead) isHeld(s *store.Snapshot, j *batchv1.Job) (bool, error) {
	if batch.Awaits(j) || !batch.Unplaced(j) {
		return batch.Awaits(j), nil
	}
	c, in, err := a.groupOf(s, j)
	l, key := a.groups[groupKey(j, c)], objects.Key(objects.Jobs, j)
	return in && (slices.Contains(l.Waiting, key) || l.More > 0 && !slices.Contains(l.Holders, key)), err
}

// groupOf returns the concurrency group of a Job.
func (a *ahead) groupOf(s *store.Snapshot, j *batchv1.Job) (core.Concurrency, bool, error) {
	if c, ok := core.ConcurrencyOf(j.Annotations); ok {
		return c, true, nil
	}
	annotations, err := namespace(s, j.Namespace)
	c, ok := core.NamespaceConcurrency(j.Namespace, annotations)
	return c, ok, err
}

// groupKey is how groups has one.
func groupKey(j *batchv1.Job, c core.Concurrency) [2]string { return [2]string{j.Namespace, c.Group} }

// namespace returns the annotations of a namespace.
func namespace(s *store.Snapshot, name string) (map[string]string, error) {
	ns := &corev1.Namespace{}
	_, err := objects.Read(s, store.Key(objects.Namespaces, "", name), ns)
	return ns.Annotations, err
}

// start returns when a Job that is held back is expected to start: once what it waits for is over, and then when there is room behind
// all who wait for that now.
func (a *ahead) start(s *store.Snapshot, j *batchv1.Job) (moment, error) {
	if m, known := a.starts[j.UID]; known {
		return m, nil
	}
	a.starts[j.UID] = unknown("it waits for itself") // unless it is found out
	m, err := a.find(s, j)
	a.starts[j.UID] = m
	return m, err
}

func (a *ahead) find(s *store.Snapshot, j *batchv1.Job) (moment, error) {
	if batch.Paused(j.Annotations) {
		return unknown("jobs/%s is paused", j.Name), nil
	}
	begins, err := a.needs(s, j)
	if err != nil || begins.at == nil {
		return begins, err
	}
	if at, ok := batch.StartAt(j.Annotations); ok && batch.AwaitsTime(j) && at.After(begins.at.At.Time) {
		begins.at = &wire.Expected{At: metav1.NewTime(at), Basis: wire.StartTime}
	}
	c, in, err := a.groupOf(s, j)
	if err != nil {
		return moment{}, err
	}
	if in {
		m, err := a.place(s, j, c)
		if err != nil || m.at == nil {
			return m, err
		}
		begins.at = forecast.Later(begins.at, m.at)
	}
	return a.fits(s, j, begins.at)
}

// fits returns when a Job is expected to start that nothing else holds back from a time on: in its window, when there is room.
func (a *ahead) fits(s *store.Snapshot, j *batchv1.Job, from *wire.Expected) (moment, error) {
	window := core.WindowOf(j.Annotations)
	if window == nil {
		annotations, err := namespace(s, j.Namespace)
		if err != nil {
			return moment{}, err
		}
		window = core.WindowOf(annotations)
	}
	opens := forecast.InWindow(*from, window)
	d, err := a.durationsOf(s, j)
	if err != nil {
		return moment{}, err
	}
	if at := a.plan.From(asks(j), d.Pods, opens); at != nil {
		return moment{at: at}, nil
	}
	return unknown("nothing says when there is room for it"), nil
}

// asks returns what a Job asks of the machine in order to start.
func asks(j *batchv1.Job) prospect.Outlined {
	p := job.NewPodFor(j, job.NewPod{Index: -1}, "00000")
	core.SetPodDefaults(p)
	r := node.PodOf(p)
	r.Within(j.Spec.ActiveDeadlineSeconds)
	out := r.Outlined()
	if job.IsGang(j, job.Settings{}) {
		out.Pods = max(1, int(ptr.Deref(j.Spec.Parallelism, 1)))
		all := requests.Resources{}
		for name, amount := range out.Requests {
			all[name] = amount * int64(out.Pods)
		}
		out.Requests = all
	}
	return out
}

// needs returns when all others are expected to have ended for which a Job waits.
func (a *ahead) needs(s *store.Snapshot, j *batchv1.Job) (moment, error) {
	m := moment{at: forecast.Now(a.now)}
	if !batch.AwaitsJobs(j) {
		return m, nil
	}
	for _, n := range batch.After(j.Annotations) {
		if a.steps++; a.steps > heldSteps {
			return unknown(tooMany), nil
		}
		o, err := hold.Lookup(s, j.Namespace, n.Name)
		if err != nil {
			return moment{}, err
		}
		if !o.Exists {
			a.steps += pastSteps
		}
		switch hold.Judge(n, o, j.CreationTimestamp.Time) {
		case hold.Met:
			continue
		case hold.Unknown:
			return unknown("there is no jobs/%s yet", n.Name), nil
		case hold.Missed:
			return unknown("jobs/%s %s", n.Name, hold.Ended(o.Result)), nil
		}
		if n.When == batch.NeedFailed {
			return unknown("jobs/%s may not fail", n.Name), nil
		}
		end, err := a.end(s, store.Key(objects.Jobs, j.Namespace, n.Name))
		if err != nil || end.at == nil {
			return end, err
		}
		m.at = forecast.Later(m.at, end.at)
	}
	return m, nil
}

// end returns when a Job is expected to have ended.
func (a *ahead) end(s *store.Snapshot, key string) (moment, error) {
	if m, known := a.ends[key]; known {
		return m, nil
	}
	if a.steps++; a.steps > heldSteps {
		return unknown(tooMany), nil
	}
	_, name := objects.NameOf(key)
	a.ends[key] = unknown("jobs/%s waits for itself", name)
	m, err := a.findEnd(s, key, name)
	a.ends[key] = m
	return m, err
}

func (a *ahead) findEnd(s *store.Snapshot, key, name string) (moment, error) {
	j := &batchv1.Job{}
	if ok, err := objects.Read(s, key, j); err != nil || !ok || objects.Finished(j) {
		return moment{at: forecast.Now(a.now)}, err // its pods are about to end
	}
	f, err := a.of(s, j, a.now)
	if err != nil {
		return moment{}, err
	}
	_, runs := a.running[j.UID]
	switch state := batch.State(j); {
	case state == batch.StateTerminating || state == batch.StateFailing || state == batch.StateCompleting:
		return moment{at: forecast.Now(a.now)}, nil
	case f.Ends != nil:
		return moment{at: f.Ends}, nil
	case f.Unknown != "":
		return moment{why: f.Unknown}, nil
	case state == batch.StateSuspended:
		return unknown("jobs/%s is suspended", name), nil
	case batch.PausedBy(&j.Status) != "" || batch.Paused(j.Annotations):
		return unknown("jobs/%s is paused", name), nil
	case f.Starts == nil && a.queued[j.UID]:
		return unknown("nothing says when there is room for jobs/%s", name), nil
	case f.Starts == nil && runs:
		return unknown(neither, name), nil
	case f.Starts == nil: // it does so now
		f.Starts = forecast.Now(a.now)
	}
	return a.endsAfter(s, j, f.Starts)
}

// neither is why nobody knows when a Job ends.
const neither = "jobs/%s has neither a deadline nor an earlier run"

// endsAfter returns when a Job is expected to have ended that is to start at a time.
func (a *ahead) endsAfter(s *store.Snapshot, j *batchv1.Job, starts *wire.Expected) (moment, error) {
	d, err := a.durationsOf(s, j)
	if err != nil {
		return moment{}, err
	}
	if at := forecast.After(starts, d.Jobs, podspec.Seconds(ptr.Deref(j.Spec.ActiveDeadlineSeconds, 0))); at != nil {
		return moment{at: at}, nil
	}
	return unknown(neither, j.Name), nil
}

// place returns when a Job is expected to get a place in its concurrency group: behind all who wait for one, unless it does so itself.
func (a *ahead) place(s *store.Snapshot, j *batchv1.Job, c core.Concurrency) (moment, error) {
	l, some := a.groups[groupKey(j, c)]
	switch {
	case !some:
		return moment{at: forecast.Now(a.now)}, nil
	case c.Policy == core.ForbidConcurrent:
		return unknown("it fails if the group %s has no place for it then", c.Group), nil
	case l.Replaces || c.Policy != core.QueueConcurrent:
		return unknown("Jobs of the group %s end one another", c.Group), nil
	}
	of := a.places[groupKey(j, c)]
	if of == nil {
		of = &places{starts: map[string]moment{}}
		a.places[groupKey(j, c)] = of
		if err := a.fill(s, of, l); err != nil {
			return moment{}, err
		}
	}
	m, waits := of.starts[objects.Key(objects.Jobs, j)]
	switch {
	case waits:
		return m, nil
	case l.More > 0:
		return unknown("more than %d Jobs wait for a place in the group %s before it", len(l.Waiting), c.Group), nil
	}
	return of.first(), nil
}

// first returns when the next place is free.
func (of *places) first() moment {
	if at := of.First(); at != nil {
		return moment{at: at}
	}
	return moment{why: of.why}
}

// fill gives the places of a group, as they become free, to those that wait for them, in order.
func (a *ahead) fill(s *store.Snapshot, of *places, l hold.Line) error {
	var ends []*wire.Expected
	note := func(m moment, err error) (*wire.Expected, error) {
		if m.at == nil {
			of.why = m.why
		}
		return m.at, err
	}
	for _, key := range l.Holders {
		at, err := note(a.end(s, key))
		if err != nil {
			return err
		}
		ends = append(ends, at)
	}
	of.Places = forecast.NewPlaces(l.Limit, ends, a.now)
	for _, key := range l.Waiting {
		first := of.first()
		of.starts[key] = first
		if first.at == nil {
			continue
		}
		if a.steps++; a.steps > heldSteps {
			of.Places, of.why = nil, tooMany
			continue
		}
		j := &batchv1.Job{}
		if _, err := objects.Read(s, key, j); err != nil {
			return err
		}
		m, err := a.fits(s, j, first.at)
		if err == nil && m.at != nil {
			m, err = a.endsAfter(s, j, m.at)
		}
		until, err := note(m, err)
		if err != nil {
			return err
		}
		of.Take(until)
	}
	return nil
}

// durationsOf returns how long earlier runs of a Job took.
func (f *Forecasts) durationsOf(s *store.Snapshot, j *batchv1.Job) (*history.Durations, error) {
	name := runName(j)
	d := f.durations[name]
	if d != nil && len(d.Jobs) > 0 {
		return d, nil
	}
	cronJob, _ := batch.CronJobOf(j) // it may be further back
	d, err := history.DurationsOf(s, j.Namespace, j.Name, cronJob)
	if err == nil {
		f.durations[name] = d
	}
	return d, err
}
