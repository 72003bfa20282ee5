package notify

import (
	"fmt"
	"time"

	"github.com/jobd/jobd/api/notices"
)

const (
	// firstRetry is how long a delivery waits that has failed once. It doubles each time, up to longestRetry.
	firstRetry   = 5 * time.Second
	longestRetry = 15 * time.Minute
	// longestAsked bounds the pause that a receiver asks for.
	longestAsked = time.Hour
	// GiveUp is for how long a notice is tried to be delivered. A receiver that was down over a weekend still gets it.
	GiveUp = 72 * time.Hour
	// leastTrying is for how long it is tried at least, however old it is: the machine may have been off.
	leastTrying = time.Hour
)

// Pending is a notice that waits to be delivered to one receiver, as it is stored.
type Pending struct {
	Notice
	Failures int `json:"failures,omitempty"`
	// Next is when it is tried again; zero: at once. Error is why it has failed.
	Next  time.Time `json:"next,omitzero"`
	Error string    `json:"error,omitempty"`
	// Asked is for how long the receiver asked to be left alone when it has failed.
	Asked time.Duration `json:"asked,omitempty"`
	// Over are those of a receiver's several recipients who have it, or who never will.
	Over []string `json:"over,omitempty"`
}

// Trying is since when notices of a name have failed without a longer pause, and when the last has. The times of one process are held
// against each other, which neither setting the clock nor sleeping changes.
type Trying struct{ Since, Last time.Time }

// Failed takes in another failure.
func (t Trying) Failed(now time.Time) Trying {
	if t.Since.IsZero() || now.Sub(t.Last) > 2*longestAsked {
		t.Since = now
	}
	t.Last = now
	return t
}

// Heeded is how much of a pause that a receiver asks for it is given.
func Heeded(asked time.Duration) time.Duration { return min(max(0, asked), longestAsked) }

// Failed returns what is stored after a failure, and whether the notice is given up. asked is for how long the receiver asks to be left
// alone; 0 if it does not.
func (p Pending) Failed(reason error, asked time.Duration, trying Trying, now time.Time) (_ Pending, lost bool) {
	p.Failures++
	p.Error = cut(reason.Error(), maxMessage)
	p.Asked = Heeded(asked)
	wait := longestRetry
	if shift := p.Failures - 1; shift < 16 {
		wait = min(wait, firstRetry<<shift)
	}
	p.Next = now.Add(max(wait, p.Asked))
	return p, p.Next.Sub(p.At) > GiveUp && now.Sub(trying.Since) >= leastTrying
}

// Due reports whether a delivery that is to be tried next at a time is due: then, or if that is further away than any pause, and than
// the one that the receiver asked for, since the clock was set back.
func Due(next time.Time, asked time.Duration, now time.Time) bool {
	return !next.After(now) || next.Sub(now) > max(longestRetry, asked)
}

// Waiting is what the queue of a receiver has of a notice, in the order of the queue.
type Waiting struct {
	Key   string
	Name  string // Notice.Name
	Next  time.Time
	Asked time.Duration // Pending.Asked
	// Partly says that some of its recipients have it.
	Partly bool
}

// Choose returns which notice is delivered next, or, if there is none, when to look again; zero for not before the queue has
// changed. Notices of one name are delivered in order: one that has failed holds back those behind it, and nobody else's. One that only
// some recipients have not taken holds back none, which would be new to the others.
func Choose(queue []Waiting, now time.Time) (key string, again time.Time) {
	held := map[string]bool{}
	for _, w := range queue {
		if held[w.Name] {
			continue
		}
		if Due(w.Next, w.Asked, now) {
			return w.Key, time.Time{}
		}
		held[w.Name] = !w.Partly
		if again.IsZero() || w.Next.Before(again) {
			again = w.Next
		}
	}
	return "", again
}

// Bounds of what waits for a receiver: in all, and of one namespace, so that none takes the places of all others.
const (
	MaxPending          = 1000
	MaxNamespacePending = 200
)

// Ping is what a notice is to a service that watches over the times between start and end.
type Ping struct {
	Run   string // of a Job
	Start bool   // or an end
}

// PingOf returns what a notice is to such a service.
func (n *Notice) PingOf() Ping {
	return Ping{Run: fmt.Sprintf("%s/%d", n.Object.UID, n.Attempt), Start: n.Kind == notices.Started}
}

// Replaces reports whether a ping makes one of the same check pointless that was before it, and still waits. So that what arrives is
// the start of a run and then its end, a start takes the place of another start, and an end of another end and of starts of other runs.
// No more than two wait then, however long the service is down.
func (p Ping) Replaces(before Ping) bool {
	if p.Start {
		return before.Start
	}
	return !before.Start || before.Run != p.Run
}
