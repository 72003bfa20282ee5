package answers

import (
	"context"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/forecast"
	historywire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/forecast"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/hold"
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
	ahead     *forecast.Ahead
	looked    time.Time
	sweep     *time.Timer
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
			of, err := f.ahead.Of(known{f, s}, j, now)
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

// look looks up what is on the machine and what waits, unless that was done just now.
func (f *Forecasts) look(ctx context.Context, now time.Time) error {
	if now.Sub(f.looked) < outlookAge && !now.Before(f.looked) {
		return nil
	}
	o, err := f.loop.Outlook(ctx, forecast.MostAhead)
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
	f.ahead = forecast.NewAhead(o.Outlook, func(pod types.UID) forecast.OfJob {
		of := o.Jobs[pod]
		return forecast.OfJob{UID: of.UID, Window: of.Window}
	}, func(pod types.UID) forecast.Runs { return runs[o.Jobs[pod].UID] }, o.Groups, now)
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
	f.durations, f.ahead, f.sweep = nil, nil, nil
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

// known is what is stored, and what is known of earlier runs. It implements forecast.Jobs.
type known struct {
	*Forecasts
	stored *store.Snapshot
}

// Job implements forecast.Jobs.
func (k known) Job(key string) (*batchv1.Job, error) {
	j := &batchv1.Job{}
	if ok, err := objects.Read(k.stored, key, j); err != nil || !ok {
		return nil, err
	}
	return j, nil
}

// Outcome implements forecast.Jobs.
func (k known) Outcome(namespace string, n batch.Need) (hold.Outcome, error) {
	return hold.Lookup(k.stored, namespace, n)
}

// Namespace implements forecast.Jobs.
func (k known) Namespace(name string) (map[string]string, error) {
	ns := &corev1.Namespace{}
	_, err := objects.Read(k.stored, store.Key(objects.Namespaces, "", name), ns)
	return ns.Annotations, err
}

// Earlier implements forecast.Jobs.
func (k known) Earlier(j *batchv1.Job) (jobs, pods forecast.Runs, err error) {
	name := runName(j)
	if d := k.durations[name]; d != nil && len(d.Jobs) > 0 {
		return d.Jobs, d.Pods, nil
	}
	cronJob, _ := batch.CronJobOf(j) // it may be further back
	d, err := history.DurationsOf(k.stored, j.Namespace, j.Name, cronJob)
	if err != nil {
		return nil, nil, err
	}
	k.durations[name] = d
	return d.Jobs, d.Pods, nil
}
