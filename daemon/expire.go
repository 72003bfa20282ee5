package daemon

import (
	"time"

	"github.com/jobd/jobd/store"
)

// sweepInterval is how often objects with an end to their life (events) are looked for.
const sweepInterval = time.Minute

// sweep removes the objects whose time is over: no more than leave room for decisions, and the rest in the next pass.
func (p *pass) sweep() {
	next := p.now.Add(sweepInterval)
	var over []string
	p.tx.Expiring(func(o store.Object) bool {
		if time.Unix(o.Expires, 0).After(p.now) {
			return false
		}
		if len(over) == budget/2 {
			next = p.now
			return false
		}
		over = append(over, o.Key)
		return true
	})
	for _, key := range over {
		p.delete(key)
	}
	p.records.due.Set(timerKey{what: dueSweep}, next)
}
