package meter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jobd/jobd/api/usage"
)

const (
	// span is the time that a figure of the past is of, spans how many are kept: a day.
	span  = time.Minute
	spans = 24 * 60
)

// Past records what the whole machine uses, a figure a minute. Its methods may be called from any goroutine.
type Past struct {
	// Machine reads what the machine has used.
	Machine func() (Machine, error)
	Logger  *slog.Logger

	mu   sync.Mutex
	past usage.Past
}

// Run records until ctx ends.
func (p *Past) Run(ctx context.Context) {
	ticks := time.NewTicker(span)
	defer ticks.Stop()
	at := time.Now()
	before, failed := p.Machine()
	for said := false; ; {
		if failed != nil && !said {
			p.Logger.Warn("cannot record what the machine uses", "error", failed)
		}
		said = failed != nil
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now, err := p.Machine()
		ended := time.Now()
		if failed == nil && err == nil {
			p.mu.Lock()
			p.past.Add(ended, rate(now.CPU-before.CPU, ended.Sub(at)), now.WorkingSet, spans)
			p.mu.Unlock()
		}
		at, before, failed = ended, now, err
	}
}

// Used returns what was recorded.
func (p *Past) Used() usage.Past {
	p.mu.Lock()
	defer p.mu.Unlock()
	copied := func(list []int64) []int64 { return append([]int64{}, list...) } // an empty list, not null, as JSON
	return usage.Past{At: copied(p.past.At), CPU: copied(p.past.CPU), Memory: copied(p.past.Memory)}
}
