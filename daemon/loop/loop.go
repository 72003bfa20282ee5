package loop

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/follow"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/internal/watchdog"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

// retryAfter is the wait after a pass that could not be written: a full disk, say.
const retryAfter = time.Second

// Config is what a loop works with. All of it is required but for the clock, and for what may be nil.
type Config struct {
	Store *store.Store
	Inbox *Inbox
	// Controllers makes the concerns of the loop, in the order in which they decide: what is known first of pods comes
	// before decisions about Jobs, so that those see all of it. It is called at start, and again when a pass was lost.
	Controllers func(*Timers, *Followers) []Controller
	// Events bounds the events, which are removed EventTTL after they were last seen.
	Events   *events.Recorder
	EventTTL time.Duration
	Metrics  *metrics.Metrics
	Logger   *slog.Logger
	// Watch is told what the loop is at work on, and Aside knows what it leaves alone. Both may be nil.
	Watch *watchdog.Section
	Aside *aside.List
	// Panicked is told of a panic, and what the loop was at work on. Nil: nobody is. The panic goes on when it returns.
	Panicked func(concern, object string, reason any)
	// Clock is the wall clock, which may be set at any time; nil is that of the machine.
	Clock func() time.Time
}

// Loop is the one control loop. It alone writes pod status, bindings, counts and Job status, and everything it decides
// from one thing that happened is written in one transaction: so there is nothing to reconcile after a crash, and a pod
// is counted once.
type Loop struct {
	Config

	concerns *concerns // nil when they are to be made anew
	timers   *Timers
	folded   uint64 // everything up to this version of the store is in the records
	// lost says that more was written since then than the store keeps: what was not folded in is to be read anew.
	lost bool
	// invited is the invitation to write the next pass together with what it follows from, nil for none.
	invited *store.Invitation
	// more says that the last pass has used up its budget.
	more bool
	// asked is how many controllers the last pass has asked before its budget was used up; 0 if all were.
	asked int
	// freed are the namespaces whose ResourceQuotas the last pass has made allow more.
	freed []string
	// held are observations of pods that were set aside.
	held [][]duty.Observation
	// work is what it is at work on, and faults what has come of that while passes could not be written.
	work   work
	faults faults
	// unstored are the objects whose changes the present pass takes in before they are durable.
	unstored unstored
	// notes are of the last passes; nil while nobody looks.
	notes *notes
	// questions are what Ask is to call.
	questions chan question
}

// New makes a loop, which does nothing before Rebuild and Run.
func New(c Config) *Loop {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Loop{Config: c, questions: make(chan question)}
}

// Run turns until ctx ends. It returns nil then, and an error when the store is of no use any more.
func (l *Loop) Run(ctx context.Context) error {
	for {
		more, err := l.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrClosed):
			return err
		case errors.Is(err, store.ErrCompacted):
			// More was written than the store keeps. While one waits, the same happens again.
			l.Logger.Warn("changes came faster than they could be taken in: all objects are read again", "error", err)
			continue
		case err != nil:
			l.Logger.Error("cannot write decisions, which are taken again", "error", err, "after", retryAfter)
			if !follow.Sleep(ctx, retryAfter) {
				return nil
			}
			continue
		case more:
			l.answer()
			continue
		}
		if !l.wait(ctx) {
			return nil
		}
	}
}

// wait returns when something has happened or is due, and false when ctx has ended.
func (l *Loop) wait(ctx context.Context) bool {
	var due <-chan time.Time
	now := l.Clock()
	if next := l.timers.next(now); !next.IsZero() {
		timer := time.NewTimer(next.Sub(now))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.Inbox.wake:
	case <-due:
	case l.invited = <-l.Store.Invitations():
	case <-l.Store.Missed():
	case q := <-l.questions:
		l.answerTo(q)
	}
	return true
}

// turn makes one pass and lets its effects go once it is durable. It reports whether there is more to do at once.
func (l *Loop) turn(ctx context.Context) (more bool, err error) {
	invited := l.invited
	l.invited = nil
	if l.concerns == nil {
		if invited != nil { // others would wait for all to be read
			invited.Decline()
			invited = nil
		}
		rebuild := l.Rebuild
		if l.lost { // the rest is done in the pass
			rebuild = func() error { return l.beginAside(l.Clock()) }
		}
		if err := rebuild(); err != nil {
			l.blame(l.work, err)
			return false, err
		}
	}
	now := l.Clock()
	if invited == nil && !l.lost && !l.hasWork(now) {
		return false, nil
	}
	reports := l.Inbox.take()
	var p *Pass
	pass := func(tx *store.Tx) error {
		if l.lost { // read anew while others wait, or so much may be written meanwhile that this is lost as well
			l.folded = l.Store.Version()
			if err := l.rebuild(tx, now); err != nil {
				l.blame(l.work, err)
				return err
			}
		}
		l.Watch.Begin("", "")
		defer l.Watch.End()
		defer l.unstored.clear()
		defer l.tellPanic()
		l.notes.begin()
		p = l.newPass(tx, now)
		if invited != nil {
			p.budget = JoinedBudget
		}
		err := p.run(reports)
		if err != nil {
			l.blame(p.culprit, err)
		}
		l.notes.turnTo("commit")
		crash.At("pass.decided")
		return err
	}
	if invited != nil {
		err = invited.Update(pass)
	} else {
		err = l.Store.Follow(ctx, pass)
	}
	if p != nil {
		l.Metrics.Passed(&p.Figures, time.Since(p.Now), err)
		if l.notes != nil && !l.notes.end(p, len(reports), err) {
			l.notes = nil
		}
	}
	if err != nil {
		// The records may know what was never written, and the observations are in nobody's hands. What others have
		// written is folded in again, since the end of a pod's object has effects that new records do not call for.
		l.Inbox.giveBack(reports)
		if p != nil {
			l.concerns = nil
		}
		l.lost = l.lost || errors.Is(err, store.ErrCompacted)
		return false, err
	}
	crash.At("pass.stored")
	l.faults = faults{}
	l.folded, l.lost, l.more, l.freed = p.version, false, p.exhausted, p.freed
	if l.asked = p.asked; p.Joined() {
		l.asked = 0 // its budget is used up soon
	}
	rest, held := p.unsettled()
	l.Inbox.giveBack(rest)
	l.held = append(l.held, held...)
	l.act(p.effects)
	crash.At("pass.acted")
	if l.release(p.aside) {
		l.Inbox.giveBack(l.held)
		l.concerns, l.held = nil, nil
		return true, nil
	}
	return l.more || len(l.freed) > 0 || l.concerns.dirty(), nil
}

// tellPanic is deferred, after what forgets what the loop is at work on.
func (l *Loop) tellPanic() {
	if l.Panicked == nil {
		return
	}
	if reason := recover(); reason != nil {
		at := l.Watch.State()
		l.Panicked(at.Concern, at.Object, reason)
		panic(reason)
	}
}

// act carries out what a pass has decided.
func (l *Loop) act(effects []func()) {
	l.Watch.Begin("what follows from the pass", "")
	defer l.Watch.End()
	defer l.tellPanic()
	for _, effect := range effects {
		effect()
	}
}

// hasWork reports whether there is something to take in or to decide.
func (l *Loop) hasWork(now time.Time) bool {
	due := l.timers.next(now)
	return l.more || len(l.freed) > 0 || l.folded != l.Store.Version() || l.Inbox.isDue() || l.concerns.dirty() ||
		!due.IsZero() && !due.After(now)
}

// Rebuild makes the controllers anew and has them read their records from the store.
func (l *Loop) Rebuild() error {
	now := l.Clock()
	if err := l.beginAside(now); err != nil {
		return err
	}
	return l.Store.View(func(s *store.Snapshot) error { return l.rebuild(s, now) })
}

// stored is what can be read of the store: a Snapshot, or that of a Tx.
type stored interface {
	Visited(visit func(key string) bool) *store.Snapshot
	Version() uint64
}

// rebuild has new controllers read their records, the last of the list first: what others belong to is known before them.
func (l *Loop) rebuild(s stored, now time.Time) error {
	timers, followers := newTimers(), &Followers{}
	controllers := l.Controllers(timers, followers)
	followers.find(controllers)
	l.Watch.Begin("", "")
	defer l.Watch.End()
	defer l.tellPanic()
	l.work = work{}
	if err := l.knowNamespaces(s.Visited(func(string) bool { return true }), controllers); err != nil {
		return err
	}
	for _, c := range slices.Backward(controllers) {
		concern := concernOf(c)
		l.work = work{}
		l.Watch.Step(concern, "")
		if err := c.Rebuild(s.Visited(func(key string) bool { return l.works(concern, key) }), now); err != nil {
			return err
		}
	}
	l.concerns, l.timers = newConcerns(controllers), timers
	l.folded = cmp.Or(l.folded, s.Version())
	return nil
}
