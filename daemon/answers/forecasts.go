package answers

import (
	"context"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	historywire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/forecast"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

const (
	// outlookAge is for how long what is looked up for one answer serves others, and durationsAge the same of the history, which is large
	// and changes little.
	outlookAge   = 2 * time.Second
	durationsAge = 30 * time.Second
)

// Forecasts says when Jobs are expected to start and to end. Nothing is computed or kept before somebody asks, and what was looked up is
// forgotten a while after. It implements server.Forecasts.
type Forecasts struct {
	store *store.Store
	loop  interface {
		Outlook(ctx context.Context, most int) (control.Outlook, error)
	}

	mu        sync.Mutex
	durations map[string]*history.Durations
	read      time.Time
	starts    map[types.UID]wire.Expected // by Job
	ahead     *ahead
	windows   map[types.UID]*core.Window // the same, of those that have one
	running   map[types.UID]begun        // the pod of a Job that runs which has started first
	looked    time.Time
	sweep     *time.Timer
}

// begun is when a pod has started, and for how long it was paused since.
type begun struct {
	at        time.Time
	pausedFor time.Duration
}

// NewForecasts makes what knows nothing yet.
func NewForecasts(s *store.Store, loop *control.Control) *Forecasts {
	return &Forecasts{store: s, loop: loop}
}

// Forecasts returns what is expected of Jobs that have not ended, by their UIDs. Those of which nothing is known are missing.
func (f *Forecasts) Forecasts(ctx context.Context, jobs []*batchv1.Job) (map[types.UID]*wire.Forecast, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if err := f.look(ctx, now); err != nil {
		return nil, err
	}
	out := map[types.UID]*wire.Forecast{}
	err := f.store.View(func(s *store.Snapshot) error {
		for _, j := range jobs {
			of, err := f.of(s, j, now)
			if err != nil {
				return err
			}
			if of.Starts != nil || of.Ends != nil || of.Unknown != "" {
				out[j.UID] = of
			}
		}
		return nil
	})
	return out, err
}

// forecast returns what is expected of one Job; without anything in it if nothing is known.
func (f *Forecasts) forecast(ctx context.Context, j *batchv1.Job) (*wire.Forecast, error) {
	all, err := f.Forecasts(ctx, []*batchv1.Job{j})
	if err != nil || all[j.UID] == nil {
		return &wire.Forecast{}, err
	}
	return all[j.UID], nil
}

// of says what is expected of a Job.
func (f *Forecasts) of(s *store.Snapshot, j *batchv1.Job, now time.Time) (*wire.Forecast, error) {
	out := &wire.Forecast{}
	paused := batch.PausedBy(&j.Status)
	if batch.Paused(j.Annotations) && !batch.Placed(j) { // until it goes on nobody knows when it begins
		return out, nil
	}
	if at, ok := batch.StartAt(j.Annotations); ok && batch.AwaitsTime(j) && !batch.AwaitsJobs(j) && at.After(now) {
		out.Starts = &wire.Expected{At: metav1.NewTime(at), Basis: wire.StartTime}
		return out, nil
	}
	if held, err := f.ahead.isHeld(s, j); held || err != nil {
		if err != nil {
			return nil, err
		}
		m, err := f.ahead.start(s, j)
		out.Starts, out.Unknown = m.at, m.why
		return out, err
	}
	if objects.Finished(j) || ptr.Deref(j.Spec.Suspend, false) {
		return out, nil
	}
	first, runs := f.running[j.UID]
	if _, opens := batch.WindowClosed(&j.Status); !opens.IsZero() && !batch.Paused(j.Annotations) && (paused == batch.PausedByUser || !runs) {
		out.Starts = &wire.Expected{At: metav1.NewTime(opens), Basis: wire.Window}
		return out, nil
	}
	if paused == batch.Preempted { // until it goes on nobody knows when it ends
		if at, ok := f.starts[j.UID]; ok {
			out.Starts = &at
		}
		return out, nil
	}
	if at, ok := f.starts[j.UID]; ok && j.Status.Active > 0 && !runs {
		at = forecast.InWindow(at, f.windows[j.UID]) // it may be closed when there is room
		out.Starts = &at
	}
	if !runs {
		return out, nil
	}
	earlier, err := f.durationsOf(s, j)
	if err != nil {
		return nil, err
	}
	p := forecast.Progress{
		Started: first.at, Paused: first.pausedFor, Stands: batch.Paused(j.Annotations) || paused == batch.PausedByUser,
		Completions: int(ptr.Deref(j.Spec.Completions, 0)), Succeeded: int(j.Status.Succeeded), Runs: earlier.Jobs,
	}
	if j.Status.StartTime != nil && p.Succeeded > 0 { // its first pods have ended
		p.Started, p.Paused = j.Status.StartTime.Time, batch.PausedFor(j.Annotations)
	}
	p.Deadline, _ = batch.Deadline(j)
	out.Ends = forecast.End(p, now)
	return out, nil
}

// look looks up what is on the machine and what waits, unless that was done just now.
func (f *Forecasts) look(ctx context.Context, now time.Time) error {
	if now.Sub(f.looked) < outlookAge && !now.Before(f.looked) {
		return nil
	}
	o, err := f.loop.Outlook(ctx, forecast.Ahead)
	if err != nil {
		return err
	}
	runs := map[types.UID]forecast.Runs{} // by Job
	err = f.store.View(func(s *store.Snapshot) (err error) {
		if f.durations == nil || now.Sub(f.read) > durationsAge || now.Before(f.read) {
			if f.durations, err = history.AllDurations(s); err != nil {
				return err
			}
			f.read = now
		}
		for _, of := range o.Jobs {
			if _, ok := runs[of.UID]; ok {
				continue
			}
			if runs[of.UID], err = f.runs(s, of); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.starts, f.windows, f.running = map[types.UID]wire.Expected{}, map[types.UID]*core.Window{}, map[types.UID]begun{}
	plan := forecast.NewPlan(o.Outlook, func(pod types.UID) forecast.Runs { return runs[o.Jobs[pod].UID] }, now)
	f.ahead = &ahead{
		Forecasts: f, now: now, plan: plan, groups: o.Groups, queued: map[types.UID]bool{},
		starts: map[types.UID]moment{}, ends: map[string]moment{}, places: map[[2]string]*places{},
	}
	for i := range o.Waiting {
		f.ahead.queued[o.Jobs[o.Waiting[i].UID].UID] = true
	}
	for uid, at := range plan.Starts {
		of := o.Jobs[uid]
		if known, ok := f.starts[of.UID]; of.UID != "" && (!ok || at.At.Before(&known.At)) {
			f.starts[of.UID] = at
		}
		if of.Window != nil {
			f.windows[of.UID] = of.Window
		}
	}
	for i := range o.Running {
		p := &o.Running[i]
		of := o.Jobs[p.UID].UID
		if known, ok := f.running[of]; of != "" && !p.Started.IsZero() && (!ok || p.Started.Before(known.at)) {
			f.running[of] = begun{p.Started, p.PausedFor}
		}
	}
	f.looked = now
	if f.sweep == nil {
		f.sweep = time.AfterFunc(2*durationsAge, f.forget)
	}
	return nil
}

// forget drops what nobody has asked for of late.
func (f *Forecasts) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < durationsAge {
		f.sweep = time.AfterFunc(2*durationsAge, f.forget)
		return
	}
	f.durations, f.starts, f.windows, f.running, f.ahead, f.sweep = nil, nil, nil, nil, nil, nil
}

// jobOwner is the part of a Job that says of which CronJob it is.
var jobOwner = scheme.FieldsOf[batchv1.Job]("metadata.name", "metadata.namespace", "metadata.ownerReferences")

// runs returns how long pods of a Job took: those of earlier runs, and its own.
func (f *Forecasts) runs(s *store.Snapshot, of control.OfJob) (forecast.Runs, error) {
	var runs forecast.Runs
	o, ok := s.Get(of.Key)
	if !ok {
		return nil, nil
	}
	j := &batchv1.Job{}
	if err := scheme.DecodePart(o.Value, jobOwner, j); err != nil {
		return nil, err
	}
	if d := f.durations[runName(j)]; d != nil {
		runs = slices.Clone(d.Pods)
	}
	if o, ok := s.Get(store.Key(objects.Accounts, "", string(of.UID))); ok {
		a, err := history.DecodeAccount(o.Value)
		if err != nil {
			return nil, err
		}
		for i := range a.Job.Pods {
			if p := &a.Job.Pods[i]; p.Result == historywire.PodSucceeded && p.Started != nil {
				runs = append(runs, p.Ran())
			}
		}
	}
	return runs, nil
}

func runName(j *batchv1.Job) string {
	cronJob, _ := batch.CronJobOf(j)
	return history.RunName(j.Namespace, j.Name, cronJob)
}
