package eviction

import "time"

// Pressure is whether the node is short of disk. It lasts for some time after it was seen last, so that a disk about its
// threshold does not have pods come and go (KubeletConfiguration.EvictionPressureTransitionPeriod).
type Pressure struct {
	On   bool
	seen time.Time
}

// See takes in whether a threshold is met now, and tells whether that has changed the node's condition.
func (p *Pressure) See(short bool, now time.Time, lasts time.Duration) (changed bool) {
	before := p.On
	switch {
	case short:
		p.On, p.seen = true, now
	case p.On && p.seen.IsZero():
		p.seen = now // found at start: who saw it is gone
	}
	p.On = p.On && (short || now.Sub(p.seen) < lasts)
	return p.On != before
}
