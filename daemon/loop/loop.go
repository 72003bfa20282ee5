// Package loop is the machinery of the one control loop: passes over the store, the timers, and what a concern of the loop
// is (Controller). The concerns themselves are in other packages.
//
// Changes of the store, observations of the pods' workers and the time come in. What goes out is one transaction a pass,
// and what is to be done once that is durable (Pass.After). Controllers write through their Pass alone.
package loop

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/follow"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
	"github.com/jobd/jobd/watchdog"
)

// retryAfter is the wait after a pass that could not be written: a full disk, say.
const retryAfter = time.Second

// Config is what a loop works with. All of it is required but for the clock, and for what may be nil.
type Config struct {
	Store *store.Store
	Inbox *Inbox
	// Controllers makes the concerns of the loop, in the order in which they decide: what is known first of pods comes
	// before decisions about Jobs, so that those see all of it. It is called at start, and again when a pass was lost.
	Controllers func(*Timers) []Controller
	// Events bounds the events, which are removed EventTTL after they were last seen.
	Events   *events.Recorder
	EventTTL time.Duration
	Metrics  *metrics.Metrics
	Logger   *slog.Logger
	// Watch is told what the loop is at work on, and Aside knows what it leaves alone. Both may be nil.
	Watch *watchdog.Section
	Aside *aside.List
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
	// invited is the invitation to write the next pass together with what it follows from, nil for none.
	invited *store.Invitation
	// more says that the last pass has used up its budget.
	more bool
	// freed are the namespaces whose ResourceQuotas the last pass has made allow more.
	freed []string
	// held are observations of pods that were set aside.
	held [][]pod.Observation
	// unstored are the objects whose changes the present pass takes in before they are durable.
	unstored unstored
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
		if err := l.Rebuild(); err != nil {
			return false, err
		}
	}
	now := l.Clock()
	if due := l.timers.next(now); invited == nil && !l.Inbox.isDue() && l.folded == l.Store.Version() && !l.more && len(l.freed) == 0 && !l.concerns.dirty() &&
		(due.IsZero() || due.After(now)) {
		return false, nil
	}
	reports := l.Inbox.take()
	var p *Pass
	pass := func(tx *store.Tx) error {
		l.Watch.Begin("", "")
		defer l.Watch.End()
		defer l.unstored.clear()
		p = l.newPass(tx, now)
		if invited != nil {
			p.budget = JoinedBudget
		}
		err := p.run(reports)
		crash.At("pass.decided")
		return err
	}
	if invited != nil {
		err = invited.Update(pass)
	} else {
		err = l.Store.Update(ctx, pass)
	}
	if p != nil {
		l.Metrics.Passed(&p.Figures, time.Since(p.Now), err)
	}
	if err != nil {
		// The records may know what was never written, and the observations are in nobody's hands. What others have
		// written is folded in again, since the end of a pod's object has effects that new records do not call for.
		l.Inbox.giveBack(reports)
		if p != nil {
			l.concerns = nil
		}
		if errors.Is(err, store.ErrCompacted) {
			l.folded = l.Store.Version()
		}
		return false, err
	}
	crash.At("pass.stored")
	l.folded, l.more, l.freed = p.version, p.exhausted, p.freed
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

// act carries out what a pass has decided.
func (l *Loop) act(effects []func()) {
	l.Watch.Begin("what follows from the pass", "")
	defer l.Watch.End()
	for _, effect := range effects {
		effect()
	}
}

// Rebuild makes the controllers anew and has them read their records from the store, the last of the list first: what
// others belong to is known before them.
func (l *Loop) Rebuild() error {
	timers := newTimers()
	controllers := l.Controllers(timers)
	now := l.Clock()
	l.Watch.Begin("", "")
	defer l.Watch.End()
	if err := l.beginAside(now); err != nil {
		return err
	}
	return l.Store.View(func(s *store.Snapshot) error {
		for _, c := range slices.Backward(controllers) {
			concern := concernOf(c)
			l.Watch.Step(concern, "")
			if err := c.Rebuild(s.Visited(func(key string) bool { return l.works(concern, key) }), now); err != nil {
				return err
			}
		}
		l.concerns, l.timers = newConcerns(controllers), timers
		l.folded = cmp.Or(l.folded, s.Version())
		return nil
	})
}
