package follow

import (
	"context"
	"time"
)

// retry is the time after which work is done again that has failed.
const retry = 5 * time.Second

// Signal says that there is something to do. It is made by NewSignal, and may be sent from any goroutine.
type Signal chan struct{}

// NewSignal returns a signal that was not sent.
func NewSignal() Signal { return make(Signal, 1) }

// Send lets the next Wait return. It never blocks: while nobody waits, many are as good as one.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // it has been sent already
	}
}

// Wait returns once the signal was sent, and false when ctx has ended.
func (s Signal) Wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s:
		return true
	}
}

// Run calls do each time that the signal was sent, until ctx ends. After each time it pauses, so that what comes together is
// done together; longer if do says that it has failed, which is then done again.
func (s Signal) Run(ctx context.Context, pause time.Duration, do func() (ok bool)) {
	s.run(ctx, func(time.Duration) time.Duration { return pause }, do)
}

// leisure is how many times as long as do RunAtLeisure pauses.
const leisure = 9

// RunAtLeisure is Run for what takes the longer the more there is: it also pauses for a multiple of the time that do took, so
// that whoever lets it be called again and again takes no more than a tenth of a processor.
func (s Signal) RunAtLeisure(ctx context.Context, pause time.Duration, do func() (ok bool)) {
	s.run(ctx, func(took time.Duration) time.Duration { return max(pause, leisure*took) }, do)
}

func (s Signal) run(ctx context.Context, pause func(took time.Duration) time.Duration, do func() (ok bool)) {
	for s.Wait(ctx) {
		begun := time.Now()
		ok := do()
		wait := pause(time.Since(begun))
		if !ok {
			s.Send()
			wait = max(wait, retry)
		}
		if !Sleep(ctx, wait) {
			return
		}
	}
}

// Sleep returns after a time, and false when ctx has ended before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
