package image

import (
	"fmt"
	"time"
)

// leastRate is how many bytes a second a registry must send while it is waited for. A line of 100 kB/s has room for a hundred
// downloads of that pace; one that sends a byte now and then, as long as anyone listens, is not a line that is slow.
const leastRate = 1000

// pace judges how much a registry sends in a time in which nothing else is waited for.
type pace struct {
	over   time.Duration // which is judged at a time
	waited time.Duration
	got    int64
}

// newPace returns the pace of what may stall. It is judged over a longer time, in which a registry may also be connected to.
func newPace(stall time.Duration) pace { return pace{over: 5 * stall} }

// add counts what has come after a wait, and returns an error if that is too little.
func (p *pace) add(n int, waited time.Duration) error {
	p.got += int64(n)
	if p.waited += waited; p.waited < p.over {
		return nil
	}
	if float64(p.got) < leastRate*p.waited.Seconds() {
		return &silence{fmt.Errorf("the registry has sent %d bytes in %s, which is less than %d a second",
			p.got, p.waited.Round(time.Millisecond), leastRate)}
	}
	p.waited, p.got = 0, 0
	return nil
}
