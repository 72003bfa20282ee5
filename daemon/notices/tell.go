package notices

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// A namespace may write this many notices to a receiver at once, and then one in every interval, so that a Job that starts others over
// and over fills nobody's mailbox. Pings do not count: they are short, and no more than two of a check wait.
const (
	burst    = 300
	interval = 10 * time.Second
)

// Tell writes a notice to each receiver that is to be told of it. One that is not known, or has too much to be told already, is
// an event of the object.
func (t *Teller) Tell(p *loop.Pass, about corev1.ObjectReference, n *notify.Notice, wanted notices.Wanted) error {
	var value []byte
	for _, name := range slices.Sorted(slices.Values(wanted.Receivers)) {
		r := t.receivers[name]
		if r == nil {
			if !notify.Asked(n, wanted) {
				continue
			}
			if err := t.lost(p, about, n, name, "there is no receiver of that name in the settings of jobd"); err != nil {
				return err
			}
			continue
		}
		if !notify.Goes(n, r, wanted) {
			continue
		}
		if r.Healthcheck != nil {
			for _, key := range t.pings.replace(check{name, n.Name()}, n.PingOf()) {
				p.Delete(key)
				t.count(key, -1)
			}
		}
		if why := t.full(name, about.Namespace, r.Healthcheck == nil, p.Now); why != "" {
			if err := t.lost(p, about, n, name, why); err != nil {
				return err
			}
			continue
		}
		if value == nil {
			var err error
			if value, err = json.Marshal(notify.Pending{Notice: *n}); err != nil {
				return err
			}
		}
		key := Key(name, p.Version()+1, about.Namespace)
		p.PutStored(store.Object{Key: key, UID: n.Object.UID, Value: value})
		t.count(key, 1)
		if r.Healthcheck != nil {
			t.pings.add(check{name, n.Name()}, waiting{key, n.PingOf()})
		}
	}
	return nil
}

// full returns why a receiver takes no more notices of a namespace now; empty if it does. limited says that there is a limit to how
// many come in a time, too.
func (t *Teller) full(receiver, namespace string, limited bool, now time.Time) string {
	limits := t.allowed[namespace]
	if limits == nil {
		limits = map[string]*rate.Limiter{}
		t.allowed[namespace] = limits
	}
	limit := limits[receiver]
	if limit == nil {
		limit = rate.NewLimiter(rate.Every(interval), burst)
		limits[receiver] = limit
	}
	waits := t.pending[receiver]
	switch {
	case waits != nil && waits.all >= notify.MaxPending:
		return fmt.Sprintf("%d others wait for it", waits.all)
	case waits != nil && waits.of[namespace] >= notify.MaxNamespacePending:
		return fmt.Sprintf("%d others of this namespace wait for it", waits.of[namespace])
	case limited && !limit.AllowN(now, 1):
		return "this namespace has sent it too many lately"
	}
	return ""
}

// lost tells of a notice that is not delivered.
func (t *Teller) lost(p *loop.Pass, about corev1.ObjectReference, n *notify.Notice, receiver, why string) error {
	if err := t.refused(p, about, n, receiver, why); err != nil {
		return err
	}
	message := fmt.Sprintf("%s is not told of %q: %s", receiver, n.Kind, why)
	return p.Event(about, events.ControllerOf(about.Kind), corev1.EventTypeWarning, NotDelivered, message)
}

// NotDelivered is the reason of the event of a notice that a receiver will not get.
const NotDelivered = "NoticeNotDelivered"

// Key returns the key of a notice: by receiver, then in the order in which they are written, with the namespace for the count.
func Key(receiver string, version uint64, namespace string) string {
	return fmt.Sprintf("%s/%s/%016x.%s", objects.Notices, receiver, version, namespace)
}

// ReceiverOf returns the receiver in the key of a notice.
func ReceiverOf(key string) string {
	receiver, _ := objects.NameOf(key)
	return receiver
}

// pending counts what waits for a receiver.
type pending struct {
	all int
	of  map[string]int // by namespace
}

// count takes in that a notice was written, or is gone.
func (t *Teller) count(key string, n int) {
	receiver, name := objects.NameOf(key)
	_, namespace, _ := strings.Cut(name, ".")
	p := t.pending[receiver]
	if p == nil {
		p = &pending{of: map[string]int{}}
		t.pending[receiver] = p
	}
	p.all += n
	if p.of[namespace] += n; p.of[namespace] <= 0 {
		delete(p.of, namespace)
	}
}
