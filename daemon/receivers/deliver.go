package receivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/follow"
	teller "github.com/jobd/jobd/daemon/notices"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

var errFormer = errors.New("the receiver is in the settings of jobd no more")

// deliver tries to deliver a notice, and notes what came of that.
func (d *Deliveries) deliver(ctx context.Context, key string) {
	name := teller.ReceiverOf(key)
	var p *notify.Pending
	d.insist(ctx, name, func(context.Context) (err error) {
		p, err = d.read(key)
		return err
	})
	if p == nil {
		if ctx.Err() == nil {
			d.show(store.Object{Key: key}, true)
		}
		return
	}
	failed, lost := errFormer, true
	if r := d.Receivers[name]; r != nil {
		if !notify.Due(p.Next, p.Asked, time.Now()) { // the queue knew an earlier state
			d.queueAgain(key, p)
			return
		}
		var tried bool
		if failed, tried = d.attempt(ctx, r, name, key, p); !tried {
			return
		}
		lost = errors.As(failed, new(*forGood))
	}
	d.insist(ctx, name, func(ctx context.Context) error { return d.note(ctx, name, key, *p, failed, lost) })
}

// attempt tries to deliver a notice once. It reports whether it has got to that before the daemon stops.
func (d *Deliveries) attempt(ctx context.Context, r *notify.Receiver, name, key string, p *notify.Pending) (failed error, tried bool) {
	limited, cancel := context.WithTimeout(ctx, r.Limit())
	defer cancel()
	if p.Text == "" && p.Failures == 0 && r.Healthcheck == nil {
		text, err := d.Explain(limited, p.Object)
		if err == nil && text != "" { // or the object is gone by now, or the loop too busy; the notice itself says what has happened
			p.Notice.Explain(text)
			if !d.insist(ctx, name, func(ctx context.Context) error { return d.putText(ctx, key, p) }) {
				return nil, false
			}
		}
	}
	limited, cancel = context.WithTimeout(ctx, r.Limit())
	defer cancel()
	crash.At("notice.sending")
	failed = d.senders[name].send(limited, p)
	crash.At("notice.sent")
	if failed != nil && context.Cause(limited) != nil {
		if errors.Is(limited.Err(), context.Canceled) && !errors.As(failed, new(*partly)) {
			return nil, false // the daemon stops, and tries it again
		}
		failed = fmt.Errorf("it took longer than %v: %w", r.Limit(), failed)
	}
	return failed, true
}

// insist does something with the store until that succeeds, and reports whether it has before the daemon stops. What was delivered is
// not delivered again because nothing can be written down, as on a full disk. Meanwhile the receiver gets nothing else.
func (d *Deliveries) insist(ctx context.Context, receiver string, do func(ctx context.Context) error) bool {
	for said := ""; ; {
		err := do(context.WithoutCancel(ctx))
		d.stuck(receiver, err)
		if err == nil {
			return true
		}
		if text := err.Error(); text != said {
			said = text
			d.Logger.Warn("cannot note what has become of a notice", "receiver", receiver, "error", err)
		}
		if follow.Sleep(ctx, time.Minute); ctx.Err() != nil {
			return false
		}
	}
}

func (d *Deliveries) read(key string) (p *notify.Pending, err error) {
	err = d.Store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(key)
		if !ok {
			return nil
		}
		p = &notify.Pending{}
		return json.Unmarshal(o.Value, p)
	})
	return p, err
}

// putText stores what there is to be said of a notice, once, so that it says the same however often it is delivered.
func (d *Deliveries) putText(ctx context.Context, key string, p *notify.Pending) error {
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	err = d.update(ctx, func(tx *store.Tx) error {
		if o, ok := tx.Get(key); ok {
			tx.Put(store.Object{Key: key, UID: o.UID, Value: value})
		}
		return nil
	})
	crash.At("notice.explained")
	return err
}

// ending is what came of an attempt to deliver a notice. Of one to several recipients it may be delivered to some, and lost to others.
type ending struct {
	failed          error
	delivered, lost bool
}

// note stores what came of an attempt: the notice is removed once it is delivered or lost, and otherwise tried again, with those
// recipients for whom it is not over.
func (d *Deliveries) note(ctx context.Context, receiver, key string, p notify.Pending, failed error, lost bool) error {
	now := time.Now()
	end, result := ending{failed: failed, lost: lost}, "delivered"
	var part *partly
	if errors.As(failed, &part) {
		p.Over = append(slices.Clone(p.Over), part.over...)
		end.delivered, end.lost = len(part.later) == 0, len(part.never) > 0
	} else {
		end.delivered = failed == nil
	}
	trying := d.tried(receiver, &p, failed != nil, now)
	if failed != nil {
		over := false
		p, over = p.Failed(failed, d.heed(receiver, failed, now), trying, now)
		result = "failed"
		if over && !end.delivered {
			end.lost, part = true, nil
		}
	}
	gone := end.delivered || end.lost && part == nil
	if end.lost {
		result = "lost"
		d.Logger.Warn("a notice is lost", "receiver", receiver, "kind", p.Kind, "object", p.Object.Namespace+"/"+p.Object.String(), "error", p.Error)
	}
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	err = d.update(ctx, func(tx *store.Tx) error {
		o, ok := tx.Get(key)
		if !ok {
			return nil
		}
		if gone {
			tx.Delete(key)
		} else {
			tx.Put(store.Object{Key: key, UID: o.UID, Value: value})
		}
		if end.lost {
			if err := d.tellLost(tx, receiver, &p, now); err != nil {
				return err
			}
		}
		return d.standing(tx, receiver, &p, end, now)
	})
	if err != nil {
		return err
	}
	crash.At("notice.noted")
	d.results.WithLabelValues(receiver, result).Inc()
	// The queue learns of it from the store, but the next choice comes before.
	d.show(store.Object{Key: key, Value: value}, gone)
	return nil
}

// tellLost writes the event of a notice that could not be delivered.
func (d *Deliveries) tellLost(tx *store.Tx, receiver string, p *notify.Pending, now time.Time) error {
	about := corev1.ObjectReference{
		APIVersion: apiVersionOf(p.Object.Kind), Kind: p.Object.Kind, Namespace: p.Object.Namespace, Name: p.Object.Name, UID: types.UID(p.Object.UID),
	}
	if ns, ok := tx.Get(store.Key(objects.Namespaces, "", about.Namespace)); !ok || ns.Version == 0 {
		return nil // there is nobody left to see it
	}
	// What the receiver has answered is for administrators: jobctl notify, and the log.
	message := fmt.Sprintf("%s could not be told of %q", receiver, p.Kind)
	if len(p.Over) > 0 {
		message = fmt.Sprintf("not all that %s stands for could be told of %q", receiver, p.Kind)
	}
	d.mu.Lock()
	e := d.events.Event(about, events.ControllerOf(about.Kind), corev1.EventTypeWarning, teller.NotDelivered, message, now)
	d.mu.Unlock()
	if e == nil {
		return nil
	}
	value, err := scheme.Encode(e)
	if err != nil {
		return err
	}
	_, err = storage.Put(tx, &store.Object{
		Key: objects.Key(objects.Events, e), UID: string(e.UID), Value: value, Expires: now.Add(d.EventTTL).Unix(),
	})
	return err
}

func apiVersionOf(kind string) string {
	if kind == "JobSet" {
		return jobsetv1.GroupVersion.String()
	}
	return batchv1.SchemeGroupVersion.String()
}
