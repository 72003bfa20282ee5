package notices

import (
	"slices"

	"github.com/jobd/jobd/daemon/notify"
)

// check is what a receiver of pings watches over: a CronJob, or Jobs of one name.
type check struct{ receiver, name string }

// waiting is a ping that waits to be delivered, by its key.
type waiting struct {
	key string
	notify.Ping
}

// pings are those that wait.
type pings struct {
	of     map[check][]waiting
	checks map[string]check // by the keys of pings
}

func (p *pings) add(c check, w waiting) {
	p.of[c] = append(p.of[c], w)
	p.checks[w.key] = c
}

func (p *pings) gone(key string) {
	c, ok := p.checks[key]
	if !ok {
		return
	}
	delete(p.checks, key)
	p.of[c] = slices.DeleteFunc(p.of[c], func(w waiting) bool { return w.key == key })
	if len(p.of[c]) == 0 {
		delete(p.of, c)
	}
}

// replace returns the keys of pings of a check that a newer one makes pointless, and forgets them.
func (p *pings) replace(c check, by notify.Ping) (keys []string) {
	for _, w := range p.of[c] {
		if by.Replaces(w.Ping) {
			keys = append(keys, w.key)
		}
	}
	for _, key := range keys {
		p.gone(key)
	}
	return keys
}
