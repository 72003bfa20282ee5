package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

// retryAfter is the wait after a pass that could not be written: a full disk, say.
const retryAfter = time.Second

// loop is the one control loop. It alone writes pod status, bindings, counts and Job status, and everything it decides
// from one thing that happened is written in one transaction: so there is nothing to reconcile after a crash, and a pod
// is counted once.
type loop struct {
	store    *store.Store
	workers  *pod.Workers
	settings job.Settings
	eventTTL time.Duration
	maxPods  int
	// allocatable is what pods may ask for together; nil is anything.
	allocatable node.Resources
	host        host.Host
	// self is the node's object as it should be, nil for none. rootCA is what the API's certificate is verified with.
	self    *corev1.Node
	rootCA  []byte
	events  *events.Recorder
	metrics *metrics
	logger  *slog.Logger
	// clock is the wall clock, which may be set at any time; nil is that of the machine.
	clock func() time.Time
	// forget and forgetJob are told when the object of a pod or a Job is gone, and with it what is kept beside: logs.
	forget    func(*corev1.Pod)
	forgetJob func(types.UID)

	records *records // nil when they are to be read anew
	folded  uint64   // everything up to this version of the store is in the records
	// more tells that the last pass has used up its budget.
	more bool
	// epoch is the name of the time for which containers last: no longer than the host runs. newEpoch is the same
	// if the store does not know of it yet: it is written with what the change has ended.
	epoch, newEpoch string

	inbox inbox
	wake  chan struct{}
}

// inbox takes observations from workers and the runtime, each report as it came. Nobody waits in it.
type inbox struct {
	mu      sync.Mutex
	reports [][]pod.Observation
	due     bool        // they are to be looked at now
	timer   *time.Timer // makes it so; nil when nothing waits for that
}

// company is how long observations that nothing is decided from wait for others to be stored with. On a busy machine that
// spares each pod a commit.
const company = 20 * time.Millisecond

// Report takes observations in, which belong to the loop from now on.
func (l *loop) Report(o []pod.Observation) {
	if l.inbox.add(o, l.nudge) {
		l.nudge()
	}
}

func (l *loop) nudge() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already
	}
}

func (l *loop) now() time.Time {
	if l.clock == nil {
		return time.Now()
	}
	return l.clock()
}

// add tells whether there is something to be looked at now. If not, it is later that nudge is called.
func (i *inbox) add(report []pod.Observation, nudge func()) (due bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reports = append(i.reports, report)
	switch {
	case slices.ContainsFunc(report, func(o pod.Observation) bool { return !o.Later }):
		i.due = true
	case i.timer == nil:
		i.timer = time.AfterFunc(company, func() {
			i.mu.Lock()
			i.due = len(i.reports) > 0
			i.mu.Unlock()
			nudge()
		})
	}
	return i.due
}

func (i *inbox) isDue() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.due
}

// take gives all there is, whether it is due or not.
func (i *inbox) take() [][]pod.Observation {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.reports
	i.reports, i.due = nil, false
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
	return taken
}

// run turns until ctx ends. It returns nil then, and an error when the store is of no use any more.
func (l *loop) run(ctx context.Context) error {
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	from := l.folded
	follower.Go(func() { l.follow(following, from) })
	defer follower.Wait()
	defer stop()

	for {
		more, err := l.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrClosed):
			return err
		case err != nil:
			l.logger.Error("decisions could not be written, they are taken again", "error", err, "after", retryAfter)
			if !sleep(ctx, retryAfter) {
				return nil
			}
			continue
		case more:
			continue
		}
		if !l.wait(ctx) {
			return nil
		}
	}
}

// wait returns when something has happened or is due, and false when ctx has ended.
func (l *loop) wait(ctx context.Context) bool {
	var due <-chan time.Time
	now := l.now()
	if next := l.records.due.Next(now); !next.IsZero() {
		timer := time.NewTimer(next.Sub(now))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.wake:
	case <-due:
	}
	return true
}

// turn makes one pass and lets its effects go once it is durable. It tells whether there is more to do at once.
func (l *loop) turn(ctx context.Context) (more bool, err error) {
	if l.records == nil {
		if err := l.rebuild(); err != nil {
			return false, err
		}
	}
	now := l.now()
	if due := l.records.due.Next(now); !l.inbox.isDue() && l.folded == l.store.Version() && !l.more && !l.records.dirty() &&
		(due.IsZero() || due.After(now)) {
		return false, nil
	}
	reports := l.inbox.take()
	var p *pass
	err = l.store.Update(ctx, func(tx *store.Tx) error {
		p = l.newPass(tx, now)
		err := p.run(reports)
		crash.At("pass.decided")
		return err
	})
	if p != nil {
		p.measure(err)
	}
	if err != nil {
		// The records may know what was never written, and the observations are in nobody's hands. What others have
		// written is folded in again, since the end of a pod's object has effects that new records do not call for.
		l.inbox.giveBack(reports)
		if p != nil {
			l.records = nil
		}
		if errors.Is(err, store.ErrCompacted) {
			l.folded = l.store.Version()
		}
		return false, err
	}
	crash.At("pass.stored")
	l.folded, l.newEpoch, l.more = p.version, "", p.exhausted
	l.inbox.giveBack(p.unsettled())
	for _, e := range p.effects {
		if len(e.actions) > 0 {
			l.workers.Do(e.pod, e.actions)
		}
		if e.forget {
			l.forget(e.pod)
		}
		if e.forgetJob != "" {
			l.forgetJob(e.forgetJob)
		}
	}
	crash.At("pass.acted")
	return l.more || l.records.dirty(), nil
}

func (i *inbox) giveBack(reports [][]pod.Observation) {
	if len(reports) == 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reports, i.due = append(reports, i.reports...), true
}

// rebuild reads the records anew.
func (l *loop) rebuild() error {
	return l.store.View(func(s *store.Snapshot) error {
		records, err := rebuild(s, room{l.maxPods, l.allocatable, l.host.Name, l.host.Labels()}, l.now())
		if err != nil {
			return err
		}
		l.records = records
		l.folded = cmp.Or(l.folded, s.Version())
		return nil
	})
}

// follow nudges the loop when others have written after a version. The nudge comes last: whatever is written after
// version was read brings another one.
func (l *loop) follow(ctx context.Context, version uint64) {
	for l.store.Wait(ctx, version) == nil {
		version = l.store.Version()
		l.nudge()
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
