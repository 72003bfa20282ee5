package loop

import (
	"slices"
	"sync"
	"time"

	"github.com/jobd/jobd/daemon/duty"
)

// Inbox takes in what happens outside of the store: the reports of workers and the runtime, in the order in which they
// come. It never blocks. Its exported methods may be called from any goroutine.
type Inbox struct {
	wake chan struct{}

	mu      sync.Mutex
	reports [][]duty.Observation
	due     bool        // the loop should look at them now
	timer   *time.Timer // sets due; nil if nothing waits for that
}

// BatchDelay is how long purely informational observations wait to share a commit. On a busy machine this saves one
// commit for each pod.
const BatchDelay = 20 * time.Millisecond

// NewInbox makes an empty inbox for one loop.
func NewInbox() *Inbox { return &Inbox{wake: make(chan struct{}, 1)} }

// Report takes in observations, which belong to the loop from now on.
func (i *Inbox) Report(o []duty.Observation) {
	if i.add(o) {
		i.Nudge()
	}
}

// Nudge makes the loop look at the time and the store again.
func (i *Inbox) Nudge() {
	select {
	case i.wake <- struct{}{}:
	default: // it is awake already
	}
}

// add takes in a report and reports whether the loop should look at it now. If not, a nudge follows later.
func (i *Inbox) add(report []duty.Observation) (due bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reports = append(i.reports, report)
	switch {
	case slices.ContainsFunc(report, func(o duty.Observation) bool { return !o.Later }):
		i.due = true
	case i.timer == nil:
		i.timer = time.AfterFunc(BatchDelay, func() {
			i.mu.Lock()
			i.due = len(i.reports) > 0
			i.mu.Unlock()
			i.Nudge()
		})
	}
	return i.due
}

func (i *Inbox) isDue() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.due
}

// take returns all reports, whether or not they are due.
func (i *Inbox) take() [][]duty.Observation {
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

// giveBack puts reports back in front of those that have come since.
func (i *Inbox) giveBack(reports [][]duty.Observation) {
	if len(reports) == 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reports, i.due = append(reports, i.reports...), true
}
