// Package receivers delivers notices: by HTTP, by mail, to a command of the administrator's, and to services that watch over
// times.
//
// Notices come in from the store, where package daemon/notices has written them; package notify chooses the next one of each
// receiver and says what is sent. A notice is removed in the transaction that notes that it was delivered, so that after a crash
// it comes again, with the same ID. Each receiver has a goroutine: one that hangs holds up nobody else.
package receivers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/notices"
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

// Options are what deliveries are made from.
type Options struct {
	Store     *store.Store
	Receivers notify.Receivers
	// Host is the name of this machine, which receivers are told.
	Host string
	// Explain returns what "jobctl why" says of an object, as text.
	Explain  func(ctx context.Context, of notify.Object) (string, error)
	EventTTL time.Duration
	Logger   *slog.Logger
}

// Deliveries delivers notices. It is made by New.
type Deliveries struct {
	Options
	senders map[string]sender
	update  func(ctx context.Context, fn func(tx *store.Tx) error) error // of the store
	results *prometheus.CounterVec

	mu     sync.Mutex
	queues map[string]*queue // by receiver; also of those that are no longer in the settings
	events *events.Recorder
}

// former is the queue of what waits for receivers that are in the settings no more.
const former = ""

// sender delivers one notice. The error may be partly.
type sender interface {
	send(ctx context.Context, n *notify.Pending) error
}

// queue is what waits for a receiver.
type queue struct {
	waiting   []notify.Waiting // in the order of their keys
	changed   follow.Signal
	tries     map[string]notify.Trying // by the names of notices that wait
	unwritten string                   // why what came of an attempt cannot be written down; empty if it can
	until     time.Time                // before which the receiver asked to be left alone
}

func newQueue() *queue { return &queue{changed: follow.NewSignal(), tries: map[string]notify.Trying{}} }

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

// New makes what Run runs.
func New(o Options) *Deliveries {
	d := &Deliveries{
		Options: o, senders: map[string]sender{}, update: o.Store.Update, queues: map[string]*queue{}, events: events.New(o.Host),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "jobd", Name: "notices_total",
			Help: "Attempts to deliver notices: delivered, failed (and tried again), or lost (and not tried again).",
		}, []string{"receiver", "result"}),
	}
	for name, r := range o.Receivers {
		d.senders[name] = newSender(r, o.Host)
		d.queues[name] = newQueue()
	}
	d.queues[former] = newQueue()
	return d
}

func newSender(r *notify.Receiver, host string) sender {
	switch {
	case r.Webhook != nil:
		return &webhook{r.Webhook, host, newClient()}
	case r.Mail != nil:
		return &mailer{r.Mail, host}
	case r.Command != nil:
		return &command{r.Command, host}
	}
	return &healthcheck{r, newClient()}
}

// Register adds the metrics to a registry until unregister is called.
func (d *Deliveries) Register(r prometheus.Registerer) (unregister func(), err error) {
	waits := waitingMetric{d}
	if err := r.Register(d.results); err != nil {
		return nil, err
	}
	if err := r.Register(waits); err != nil {
		r.Unregister(d.results)
		return nil, err
	}
	return func() { r.Unregister(d.results); r.Unregister(waits) }, nil
}

// waitingMetric is how many notices wait for each receiver.
type waitingMetric struct{ *Deliveries }

var waitingDesc = prometheus.NewDesc("jobd_notices_pending", "Notices that wait to be delivered.", []string{"receiver"}, nil)

// Describe implements prometheus.Collector.
func (waitingMetric) Describe(out chan<- *prometheus.Desc) { out <- waitingDesc }

// Collect implements prometheus.Collector.
func (w waitingMetric) Collect(out chan<- prometheus.Metric) {
	for name := range w.Receivers {
		pending, _ := w.waits(name)
		out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(pending), name)
	}
}

// waits returns how many notices wait for a receiver, and why nothing can be written down about it.
func (d *Deliveries) waits(receiver string) (pending int, unwritten string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[receiver]
	return len(q.waiting), q.unwritten
}

// Run delivers notices until ctx ends.
func (d *Deliveries) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for name := range d.Receivers {
		running.Go(func() { d.serve(ctx, name) })
	}
	running.Go(func() { d.serve(ctx, former) })
	running.Go(func() { d.insist(ctx, former, d.forget) })
	follow.Prefix(ctx, d.Store, objects.Notices+"/", follow.Follower{
		Show:  d.show,
		Shown: func() {},
		Drop: func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, q := range d.queues {
				q.waiting = nil
			}
		},
	})
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

// serve delivers the notices of one receiver, one at a time.
func (d *Deliveries) serve(ctx context.Context, receiver string) {
	q := d.queues[receiver]
	for ctx.Err() == nil {
		d.mu.Lock()
		now := time.Now()
		key, again := notify.Choose(q.waiting, now)
		if (key != "" || !again.IsZero()) && q.until.After(now) {
			key, again = "", q.until
		}
		d.mu.Unlock()
		if key != "" {
			d.deliver(ctx, key)
			continue
		}
		var timer <-chan time.Time
		if !again.IsZero() {
			timer = time.After(time.Until(again))
		}
		select {
		case <-ctx.Done():
		case <-q.changed:
		case <-timer:
		}
	}
}

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

// queueAgain corrects what the queue has of a notice.
func (d *Deliveries) queueAgain(key string, p *notify.Pending) {
	if value, err := json.Marshal(p); err == nil {
		d.show(store.Object{Key: key, Value: value}, false)
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

// ending is what came of an attempt to deliver a notice. Of one to several recipients it may be delivered to some, and lost to others.
type ending struct {
	failed          error
	delivered, lost bool
}

// standing stores how a receiver has fared.
func (d *Deliveries) standing(tx *store.Tx, receiver string, p *notify.Pending, end ending, now time.Time) error {
	var s notices.Standing
	if o, ok := tx.Get(teller.StandingKey(receiver)); ok {
		if err := json.Unmarshal(o.Value, &s); err != nil {
			return err
		}
	}
	if end.delivered { // of some recipients, perhaps
		s.Delivered++
		s.DeliveredAt, s.LastError, s.FailedAt = &now, "", nil
	}
	if end.failed != nil {
		s.LastError, s.FailedAt = p.Error, &now
	}
	if end.lost {
		s.Lost++
		s.LostLast, s.LostAt, s.LostError = p.Object.Namespace+"/"+p.Object.String(), &now, p.Error
	}
	o, err := teller.PutStanding(receiver, &s, d.Receivers[receiver] != nil, now)
	if err == nil {
		tx.Put(o)
	}
	return err
}

// forget has what is known of receivers that are in the settings no more go after a while, if they were not told of something, and at
// once if there is nothing to be said.
func (d *Deliveries) forget(ctx context.Context) error {
	var former []store.Object
	if err := d.Store.View(func(s *store.Snapshot) error {
		s.Range(objects.NoticeStandings+"/", "", func(o store.Object) bool {
			if _, name := objects.NameOf(o.Key); d.Receivers[name] == nil && o.Expires == 0 {
				former = append(former, o)
			}
			return true
		})
		return nil
	}); err != nil || len(former) == 0 {
		return err
	}
	return d.update(ctx, func(tx *store.Tx) error {
		for _, o := range former {
			_, name := objects.NameOf(o.Key)
			var s notices.Standing
			if o, ok := tx.Get(o.Key); !ok || json.Unmarshal(o.Value, &s) != nil || s.Lost+s.Refused == 0 {
				tx.Delete(o.Key)
				continue
			}
			o, err := teller.PutStanding(name, &s, false, time.Now())
			if err != nil {
				return err
			}
			tx.Put(o)
		}
		return nil
	})
}

func apiVersionOf(kind string) string {
	if kind == "JobSet" {
		return jobsetv1.GroupVersion.String()
	}
	return batchv1.SchemeGroupVersion.String()
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

// Known reports whether objects of a namespace may name a receiver; without a namespace, whether there is one.
func (d *Deliveries) Known(receiver, namespace string) bool {
	if d.Receivers[receiver] == nil {
		return false
	}
	return namespace == "" || d.Receivers[receiver].Serves(namespace)
}

// List returns the receivers and how they have fared.
func (d *Deliveries) List() (list notices.List, err error) {
	list.Items = []notices.Receiver{}
	err = d.Store.View(func(s *store.Snapshot) error {
		standings, now := map[string]notices.Standing{}, time.Now().Unix()
		names := slices.Collect(maps.Keys(d.Receivers))
		var failed error
		s.Range(objects.NoticeStandings+"/", "", func(o store.Object) bool {
			var standing notices.Standing
			_, name := objects.NameOf(o.Key)
			if failed = json.Unmarshal(o.Value, &standing); failed != nil {
				return false
			}
			standings[name] = standing
			if over := o.Expires > 0 && o.Expires <= now; d.Receivers[name] == nil && !over && standing.Lost+standing.Refused > 0 {
				names = append(names, name)
			}
			return true
		})
		slices.Sort(names)
		for _, name := range names {
			r := notices.Receiver{Name: name, Standing: standings[name]}
			if known := d.Receivers[name]; known != nil {
				r.Kind, r.To = known.Kind(), known.To()
				r.Pending, r.Unwritten = d.waits(name)
			}
			list.Items = append(list.Items, r)
		}
		return failed
	})
	return list, err
}

// ErrUnknown is the error of Test for a receiver that there is not.
var ErrUnknown = errors.New("there is no such receiver in the settings of jobd")

// Test delivers a notice to a receiver, and returns why that has failed.
func (d *Deliveries) Test(ctx context.Context, receiver string) error {
	if d.Receivers[receiver] == nil {
		return ErrUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, d.Receivers[receiver].Limit())
	defer cancel()
	return d.senders[receiver].send(ctx, &notify.Pending{Notice: notify.NewTest(receiver, time.Now())})
}

// oneLine is a text of others in an error.
func oneLine(text []byte) string {
	const most = 200
	return strings.Join(strings.Fields(string(text[:min(len(text), most)])), " ")
}
