package receivers

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/jobd/jobd/daemon/follow"
	teller "github.com/jobd/jobd/daemon/notices"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/store"
)

// queue is what waits for a receiver.
type queue struct {
	waiting   []notify.Waiting // in the order of their keys
	changed   follow.Signal
	tries     map[string]notify.Trying // by the names of notices that wait
	unwritten string                   // why what came of an attempt cannot be written down; empty if it can
	until     time.Time                // before which the receiver asked to be left alone
}

func newQueue() *queue { return &queue{changed: follow.NewSignal(), tries: map[string]notify.Trying{}} }

// former is the queue of what waits for receivers that are in the settings no more.
const former = ""

// tried takes in what came of an attempt, and returns for how long notices of that name have failed. Those that wait behind one that is
// given up do not begin anew.
func (d *Deliveries) tried(receiver string, p *notify.Pending, failed bool, now time.Time) notify.Trying {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[receiver]
	if q == nil {
		q = d.queues[former]
	}
	if !failed {
		delete(q.tries, p.Name())
		return notify.Trying{}
	}
	t := q.tries[p.Name()].Failed(now)
	q.tries[p.Name()] = t
	return t
}

// show takes in that a notice is stored as it is, or is gone.
func (d *Deliveries) show(o store.Object, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[teller.ReceiverOf(o.Key)]
	if q == nil {
		q = d.queues[former]
	}
	at, there := slices.BinarySearchFunc(q.waiting, o.Key, func(w notify.Waiting, key string) int { return cmp.Compare(w.Key, key) })
	if gone {
		if there {
			name := q.waiting[at].Name
			q.waiting = slices.Delete(q.waiting, at, at+1)
			if !slices.ContainsFunc(q.waiting, func(w notify.Waiting) bool { return w.Name == name }) {
				delete(q.tries, name)
			}
		}
		return
	}
	var p notify.Pending
	if err := json.Unmarshal(o.Value, &p); err != nil {
		d.Logger.Error("a notice cannot be read, and waits", "notice", o.Key, "error", err)
		return
	}
	w := notify.Waiting{Key: o.Key, Name: p.Name(), Next: p.Next, Asked: p.Asked, Partly: len(p.Over) > 0}
	if q == d.queues[former] {
		w.Next = time.Time{}
	}
	if there {
		q.waiting[at] = w
	} else {
		q.waiting = slices.Insert(q.waiting, at, w)
	}
	q.changed.Send()
}

// queueAgain corrects what the queue has of a notice.
func (d *Deliveries) queueAgain(key string, p *notify.Pending) {
	if value, err := json.Marshal(p); err == nil {
		d.show(store.Object{Key: key, Value: value}, false)
	}
}

// waits returns how many notices wait for a receiver, and why nothing can be written down about it.
func (d *Deliveries) waits(receiver string) (pending int, unwritten string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[receiver]
	return len(q.waiting), q.unwritten
}

// stuck notes why nothing can be written down about a receiver.
func (d *Deliveries) stuck(receiver string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[receiver]
	if q == nil {
		q = d.queues[former]
	}
	q.unwritten = ""
	if err != nil {
		q.unwritten = err.Error()
	}
}

// heed returns for how long a receiver asks to be left alone that has failed, and leaves it alone if it has one address. A service that
// watches over times has one for each check, and may mean that alone.
func (d *Deliveries) heed(receiver string, failed error, now time.Time) time.Duration {
	var answer *refusedCall
	if !errors.As(failed, &answer) || answer.wait <= 0 {
		return 0
	}
	if d.Receivers[receiver].Healthcheck == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.queues[receiver].until = now.Add(notify.Heeded(answer.wait))
	}
	return answer.wait
}
