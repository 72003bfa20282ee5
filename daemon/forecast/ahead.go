package forecast

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/store"
)

// maxSteps is how many Jobs are looked up, for those that wait for them, before what is on the machine is looked up anew.
const maxSteps = 1000

// pastSteps is what it costs to search the history for a Job that is gone.
const pastSteps = maxSteps / 50

// tooMany is why nothing is known of Jobs that would cost more.
const tooMany = "too many Jobs wait for one another to look at all of them"

// moment is when something is expected, or else why nobody knows: a part of a sentence.
type moment struct {
	at  *wire.Expected
	why string
}

func unknown(format string, args ...any) moment { return moment{why: fmt.Sprintf(format, args...)} }

// Jobs is what is known of Jobs.
type Jobs interface {
	// Job returns a Job by its key; nil for none.
	Job(key string) (*batchv1.Job, error)
	// Outcome returns how a Job or a JobSet stands that is there, or how the last one of that name has ended.
	Outcome(namespace string, n batch.Need) (hold.Outcome, error)
	// Namespace returns the annotations of a namespace.
	Namespace(name string) (map[string]string, error)
	// Earlier returns how long earlier runs of a Job took, and their pods.
	Earlier(j *batchv1.Job) (jobs, pods Runs, err error)
}

// OfJob says of which Job a pod is.
type OfJob struct {
	UID    types.UID    // empty: of none
	Window *core.Window // nil for none
}

// Ahead looks ahead from what was on the machine at a time, and what waited: also on behalf of Jobs that others, or their groups, hold back.
// NewAhead makes one. What it finds it keeps, so it is good for as long as that is still the state of things, roughly.
type Ahead struct {
	now    time.Time
	plan   *Plan
	groups map[[2]string]hold.Line

	running map[types.UID]begun         // the pod of a Job that runs which has started first
	queued  map[types.UID]bool          // the Jobs of which pods wait for room
	pods    map[types.UID]wire.Expected // when the first pod of a Job is expected to start, of those that wait for room
	windows map[types.UID]*core.Window  // of Jobs that have one
	starts  map[types.UID]moment        // when a Job is expected to start that is held back
	ends    map[string]moment           // by key
	places  map[[2]string]*groupsPlaces
	steps   int
}

// begun is when a pod has started, and for how long it was paused since.
type begun struct {
	at        time.Time
	pausedFor time.Duration
}

// groupsPlaces are when a concurrency group has places for those that come next, and why nobody knows if there are none.
type groupsPlaces struct {
	Places
	why string
	// starts are when those are expected to start that wait, by key.
	starts map[string]moment
}

// NewAhead looks at the pods on a machine and those that wait for room, and at groups. of says of which Job a pod is, and estimate what is
// known of the pods of a Job beside their deadlines.
func NewAhead(
	o prospect.Outlook, of func(pod types.UID) OfJob, estimate func(pod types.UID) Runs, groups map[[2]string]hold.Line, now time.Time,
) *Ahead {
	a := &Ahead{
		now: now, plan: NewPlan(o, estimate, now), groups: groups, running: map[types.UID]begun{}, queued: map[types.UID]bool{},
		pods: map[types.UID]wire.Expected{}, windows: map[types.UID]*core.Window{}, starts: map[types.UID]moment{},
		ends: map[string]moment{}, places: map[[2]string]*groupsPlaces{},
	}
	for i := range o.Waiting {
		a.queued[of(o.Waiting[i].UID).UID] = true
	}
	for uid, at := range a.plan.Starts {
		j := of(uid)
		if known, ok := a.pods[j.UID]; j.UID != "" && (!ok || at.At.Before(&known.At)) {
			a.pods[j.UID] = at
		}
		if j.Window != nil {
			a.windows[j.UID] = j.Window
		}
	}
	for i := range o.Running {
		p := &o.Running[i]
		j := of(p.UID).UID
		if known, ok := a.running[j]; j != "" && !p.Started.IsZero() && (!ok || p.Started.Before(known.at)) {
			a.running[j] = begun{p.Started, p.PausedFor}
		}
	}
	return a
}

// Pod returns when a pod that waits for room is expected to start; false if nobody knows.
func (a *Ahead) Pod(uid types.UID) (wire.Expected, bool) {
	at, known := a.plan.Starts[uid]
	return at, known
}

// Of says what is expected of a Job.
func (a *Ahead) Of(jobs Jobs, j *batchv1.Job, now time.Time) (*wire.Forecast, error) {
	out := &wire.Forecast{}
	paused := batch.PausedBy(&j.Status)
	if batch.Paused(j.Annotations) && !batch.Placed(j) { // until it goes on nobody knows when it begins
		return out, nil
	}
	if at, ok := batch.StartAt(j.Annotations); ok && batch.AwaitsTime(j) && !batch.AwaitsJobs(j) && at.After(now) {
		out.Starts = &wire.Expected{At: metav1.NewTime(at), Basis: wire.StartTime}
		return out, nil
	}
	if held, err := a.isHeld(jobs, j); held || err != nil {
		if err != nil {
			return nil, err
		}
		m, err := a.start(jobs, j)
		out.Starts, out.Unknown = m.at, m.why
		return out, err
	}
	if objects.Finished(j) || ptr.Deref(j.Spec.Suspend, false) {
		return out, nil
	}
	first, runs := a.running[j.UID]
	if _, opens := batch.WindowClosed(&j.Status); !opens.IsZero() && !batch.Paused(j.Annotations) && (paused == batch.PausedByUser || !runs) {
		out.Starts = &wire.Expected{At: metav1.NewTime(opens), Basis: wire.Window}
		return out, nil
	}
	if paused == batch.Preempted { // until it goes on nobody knows when it ends
		if at, ok := a.pods[j.UID]; ok {
			out.Starts = &at
		}
		return out, nil
	}
	if at, ok := a.pods[j.UID]; ok && j.Status.Active > 0 && !runs {
		at = InWindow(at, a.windows[j.UID]) // it may be closed when there is room
		out.Starts = &at
	}
	if !runs {
		return out, nil
	}
	earlier, _, err := jobs.Earlier(j)
	if err != nil {
		return nil, err
	}
	p := Progress{
		Started: first.at, Paused: first.pausedFor, Stands: batch.Paused(j.Annotations) || paused == batch.PausedByUser,
		Completions: int(ptr.Deref(j.Spec.Completions, 0)), Succeeded: int(j.Status.Succeeded), Runs: earlier,
	}
	if j.Status.StartTime != nil && p.Succeeded > 0 { // its first pods have ended
		p.Started, p.Paused = j.Status.StartTime.Time, batch.PausedFor(j.Annotations)
	}
	p.Deadline, _ = batch.Deadline(j)
	out.Ends = End(p, now)
	return out, nil
}

// isHeld reports whether something that is looked at here holds a Job back.
func (a *Ahead) isHeld(jobs Jobs, j *batchv1.Job) (bool, error) {
	if batch.Awaits(j) || !batch.Unplaced(j) {
		return batch.Awaits(j), nil
	}
	c, in, err := a.groupOf(jobs, j)
	l, key := a.groups[groupKey(j, c)], objects.Key(objects.Jobs, j)
	return in && (slices.Contains(l.Waiting, key) || l.More > 0 && !slices.Contains(l.Holders, key)), err
}

// groupOf returns the concurrency group of a Job.
func (a *Ahead) groupOf(jobs Jobs, j *batchv1.Job) (core.Concurrency, bool, error) {
	if c, ok := core.ConcurrencyOf(j.Annotations); ok {
		return c, true, nil
	}
	annotations, err := jobs.Namespace(j.Namespace)
	c, ok := core.NamespaceConcurrency(j.Namespace, annotations)
	return c, ok, err
}

// groupKey is how groups has one.
func groupKey(j *batchv1.Job, c core.Concurrency) [2]string { return [2]string{j.Namespace, c.Group} }

// start returns when a Job that is held back is expected to start: once what it waits for is over, and then when there is room behind
// all who wait for that now.
func (a *Ahead) start(jobs Jobs, j *batchv1.Job) (moment, error) {
	if m, known := a.starts[j.UID]; known {
		return m, nil
	}
	a.starts[j.UID] = unknown("it waits for itself") // unless it is found out
	m, err := a.find(jobs, j)
	a.starts[j.UID] = m
	return m, err
}

func (a *Ahead) find(jobs Jobs, j *batchv1.Job) (moment, error) {
	if batch.Paused(j.Annotations) {
		return unknown("jobs/%s is paused", j.Name), nil
	}
	begins, err := a.needs(jobs, j)
	if err != nil || begins.at == nil {
		return begins, err
	}
	if at, ok := batch.StartAt(j.Annotations); ok && batch.AwaitsTime(j) && at.After(begins.at.At.Time) {
		begins.at = &wire.Expected{At: metav1.NewTime(at), Basis: wire.StartTime}
	}
	c, in, err := a.groupOf(jobs, j)
	if err != nil {
		return moment{}, err
	}
	if in {
		m, err := a.place(jobs, j, c)
		if err != nil || m.at == nil {
			return m, err
		}
		begins.at = Later(begins.at, m.at)
	}
	return a.fits(jobs, j, begins.at)
}

// fits returns when a Job is expected to start that nothing else holds back from a time on: in its window, when there is room.
func (a *Ahead) fits(jobs Jobs, j *batchv1.Job, from *wire.Expected) (moment, error) {
	window := core.WindowOf(j.Annotations)
	if window == nil {
		annotations, err := jobs.Namespace(j.Namespace)
		if err != nil {
			return moment{}, err
		}
		window = core.WindowOf(annotations)
	}
	opens := InWindow(*from, window)
	_, pods, err := jobs.Earlier(j)
	if err != nil {
		return moment{}, err
	}
	if at := a.plan.From(asks(j), pods, opens); at != nil {
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
func (a *Ahead) needs(jobs Jobs, j *batchv1.Job) (moment, error) {
	m := moment{at: Now(a.now)}
	if !batch.AwaitsJobs(j) {
		return m, nil
	}
	for _, n := range batch.After(j.Annotations) {
		if a.steps++; a.steps > maxSteps {
			return unknown(tooMany), nil
		}
		o, err := jobs.Outcome(j.Namespace, n)
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
			return unknown("there is no %s yet", path(n)), nil
		case hold.Missed:
			return unknown("%s %s", path(n), hold.Ended(o.Result)), nil
		}
		if n.When == batch.NeedFailed {
			return unknown("%s may not fail", path(n)), nil
		}
		if n.Set {
			return unknown("when %s ends is not forecast", path(n)), nil
		}
		end, err := a.end(jobs, store.Key(objects.Jobs, j.Namespace, n.Name))
		if err != nil || end.at == nil {
			return end, err
		}
		m.at = Later(m.at, end.at)
	}
	return m, nil
}

// path names what is needed as commands do.
func path(n batch.Need) string {
	if n.Set {
		return n.Ref()
	}
	return "jobs/" + n.Name
}

// end returns when a Job is expected to have ended.
func (a *Ahead) end(jobs Jobs, key string) (moment, error) {
	if m, known := a.ends[key]; known {
		return m, nil
	}
	if a.steps++; a.steps > maxSteps {
		return unknown(tooMany), nil
	}
	_, name := objects.NameOf(key)
	a.ends[key] = unknown("jobs/%s waits for itself", name)
	m, err := a.findEnd(jobs, key, name)
	a.ends[key] = m
	return m, err
}

func (a *Ahead) findEnd(jobs Jobs, key, name string) (moment, error) {
	j, err := jobs.Job(key)
	if err != nil || j == nil || objects.Finished(j) {
		return moment{at: Now(a.now)}, err // its pods are about to end
	}
	f, err := a.Of(jobs, j, a.now)
	if err != nil {
		return moment{}, err
	}
	_, runs := a.running[j.UID]
	switch state := batch.State(j); {
	case state == batch.StateTerminating || state == batch.StateFailing || state == batch.StateCompleting:
		return moment{at: Now(a.now)}, nil
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
		f.Starts = Now(a.now)
	}
	return a.endsAfter(jobs, j, f.Starts)
}

// neither is why nobody knows when a Job ends.
const neither = "jobs/%s has neither a deadline nor an earlier run"

// endsAfter returns when a Job is expected to have ended that is to start at a time.
func (a *Ahead) endsAfter(jobs Jobs, j *batchv1.Job, starts *wire.Expected) (moment, error) {
	earlier, _, err := jobs.Earlier(j)
	if err != nil {
		return moment{}, err
	}
	if at := After(starts, earlier, podspec.Seconds(ptr.Deref(j.Spec.ActiveDeadlineSeconds, 0))); at != nil {
		return moment{at: at}, nil
	}
	return unknown(neither, j.Name), nil
}

// place returns when a Job is expected to get a place in its concurrency group: behind all who wait for one, unless it does so itself.
func (a *Ahead) place(jobs Jobs, j *batchv1.Job, c core.Concurrency) (moment, error) {
	l, some := a.groups[groupKey(j, c)]
	switch {
	case !some:
		return moment{at: Now(a.now)}, nil
	case c.Policy == core.ForbidConcurrent:
		return unknown("it fails if the group %s has no place for it then", c.Group), nil
	case l.Replaces || c.Policy != core.QueueConcurrent:
		return unknown("Jobs of the group %s end one another", c.Group), nil
	}
	of := a.places[groupKey(j, c)]
	if of == nil {
		of = &groupsPlaces{starts: map[string]moment{}}
		a.places[groupKey(j, c)] = of
		if err := a.fill(jobs, of, l); err != nil {
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
func (of *groupsPlaces) first() moment {
	if at := of.First(); at != nil {
		return moment{at: at}
	}
	return moment{why: of.why}
}

// fill gives the places of a group, as they become free, to those that wait for them, in order.
func (a *Ahead) fill(jobs Jobs, of *groupsPlaces, l hold.Line) error {
	var ends []*wire.Expected
	note := func(m moment, err error) (*wire.Expected, error) {
		if m.at == nil {
			of.why = m.why
		}
		return m.at, err
	}
	for _, key := range l.Holders {
		at, err := note(a.end(jobs, key))
		if err != nil {
			return err
		}
		ends = append(ends, at)
	}
	of.Places = NewPlaces(l.Limit, ends, a.now)
	for _, key := range l.Waiting {
		first := of.first()
		of.starts[key] = first
		if first.at == nil {
			continue
		}
		if a.steps++; a.steps > maxSteps {
			of.Places, of.why = nil, tooMany
			continue
		}
		j, err := jobs.Job(key)
		if err != nil {
			return err
		}
		if j == nil { // it is gone by now, and takes no place
			continue
		}
		m, err := a.fits(jobs, j, first.at)
		if err == nil && m.at != nil {
			m, err = a.endsAfter(jobs, j, m.at)
		}
		until, err := note(m, err)
		if err != nil {
			return err
		}
		of.Take(until)
	}
	return nil
}
