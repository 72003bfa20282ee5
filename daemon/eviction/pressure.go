package eviction

import "time"

// Pressure is whether the node is under disk pressure. It lasts for some time after a threshold was last crossed, so
// that the condition does not flap (KubeletConfiguration.EvictionPressureTransitionPeriod).
type Pressure struct {
	On   bool
	seen time.Time
}

// See folds in whether a threshold is crossed now, and reports whether the node's condition changes.
func (p *Pressure) See(short bool, now time.Time, lasts time.Duration) (changed bool) {
	before := p.On
	switch {
	case short:
		p.On, p.seen = true, now
	case p.On && p.seen.IsZero():
		p.seen = now // the condition was found at start: it is not known when the threshold was last crossed
	}
	p.On = p.On && (short || now.Sub(p.seen) < lasts)
	return p.On != before
}
