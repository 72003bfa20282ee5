package loop

import (
	"context"
	"slices"
	"time"

	"github.com/jobd/jobd/api/inspection"
)

// notedFor is how long passes are noted after somebody has asked for them, and notedMost how many are kept.
const (
	notedFor  = time.Minute
	notedMost = 100
)

// notes are the last passes, for somebody who looks. A nil *notes takes none and costs nothing.
type notes struct {
	until  time.Time // when nobody has looked for long enough
	passes []inspection.Pass

	// Of the pass that is under way:
	concern string
	since   time.Time
	took    map[string]time.Duration
}

// turnTo notes that the time from now on is a concern's; of none if it is empty.
func (n *notes) turnTo(concern string) {
	if n == nil || n.concern == concern {
		return
	}
	now := time.Now()
	if n.concern != "" {
		n.took[n.concern] += now.Sub(n.since)
	}
	n.concern, n.since = concern, now
}

// begin notes that a pass begins.
func (n *notes) begin() {
	if n != nil {
		n.took = map[string]time.Duration{}
	}
}

// end notes how the pass has gone, and reports whether the next one is to be noted too.
func (n *notes) end(p *Pass, observations int, err error) (goesOn bool) {
	n.turnTo("")
	pass := inspection.Pass{
		At: p.Now, Took: time.Since(p.Now), Joined: p.Joined(), Observations: observations, Written: p.written, Bytes: p.bytes,
		Steps:     p.steps,
		Exhausted: p.exhausted, Concerns: n.took,
	}
	if err != nil {
		pass.Error = err.Error()
	}
	if len(n.passes) == notedMost {
		n.passes = n.passes[1:]
	}
	n.passes = append(n.passes, pass)
	return time.Now().Before(n.until)
}

// Inspect returns what the loop is doing between two passes, with the last passes, which it notes from the first call on
// until nobody has called for a minute. It may be called from any goroutine but the loop's, and fails when ctx ends first.
func (l *Loop) Inspect(ctx context.Context) (*inspection.Loop, error) {
	var is inspection.Loop
	err := l.Ask(ctx, func() {
		if l.notes == nil {
			l.notes = &notes{}
		}
		l.notes.until = time.Now().Add(notedFor)
		is = inspection.Loop{Folded: l.folded, Reports: l.Inbox.waiting(), More: l.more, Passes: slices.Clone(l.notes.passes)}
		if l.concerns == nil {
			return
		}
		timers := l.timers.inspect(l.Clock())
		for i, c := range l.concerns.all {
			of := timers[c]
			of.Name, of.Dirty = l.concerns.names[i], c.Dirty()
			is.Concerns = append(is.Concerns, of)
		}
	})
	if err != nil {
		return nil, err
	}
	return &is, nil
}

// waiting returns how many reports were not taken yet.
func (i *Inbox) waiting() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.reports)
}

// inspect returns how many times each controller waits for, and the first of them.
func (t *Timers) inspect(now time.Time) map[Controller]inspection.Concern {
	all := map[Controller]inspection.Concern{}
	for key, timer := range t.byKey {
		c := all[key.of]
		if c.Timers++; c.Next == nil || timer.due.Sub(now) < c.Next.Sub(now) {
			c.Next = &timer.due
		}
		all[key.of] = c
	}
	return all
}
