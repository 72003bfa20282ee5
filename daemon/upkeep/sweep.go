package upkeep

import (
	"time"

	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/store"
)

// sweepInterval is how often expired objects (events) are looked for.
const sweepInterval = time.Minute

// Sweep removes objects that have expired.
type Sweep struct {
	loop.Base
	timers *loop.Timers
}

// NewSweep makes the controller.
func NewSweep(timers *loop.Timers) *Sweep { return &Sweep{timers: timers} }

// Rebuild implements loop.Controller.
func (s *Sweep) Rebuild(_ *store.Snapshot, now time.Time) error {
	s.timers.Set(s, "", now)
	return nil
}

// Due removes so few objects that the pass can still take decisions; the rest goes in the next pass.
func (s *Sweep) Due(p *loop.Pass, _ string) error {
	next := p.Now.Add(sweepInterval)
	var over []string
	p.Snapshot().Expiring(func(o store.Object) bool {
		if time.Unix(o.Expires, 0).After(p.Now) {
			return false
		}
		if len(over) == loop.Budget/2 {
			next = p.Now
			return false
		}
		over = append(over, o.Key)
		return true
	})
	for _, key := range over {
		p.Delete(key)
	}
	s.timers.Set(s, "", next)
	return nil
}
