// Package receivers delivers notices: by HTTP, by mail, to a command of the administrator's, and to services that watch over
// times.
//
// Notices come in from the store, where package daemon/notices has written them; package notify chooses the next one of each
// receiver and says what is sent. A notice is removed in the transaction that notes that it was delivered, so that after a crash
// it comes again, with the same ID. Each receiver has a goroutine: one that hangs holds up nobody else.
package receivers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/follow"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
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

// sender delivers one notice. The error may be partly.
type sender interface {
	send(ctx context.Context, n *notify.Pending) error
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

// Known reports whether objects of a namespace may name a receiver; without a namespace, whether there is one.
func (d *Deliveries) Known(receiver, namespace string) bool {
	if d.Receivers[receiver] == nil {
		return false
	}
	return namespace == "" || d.Receivers[receiver].Serves(namespace)
}

// ErrUnknown is the error of Test for a receiver that does not exist.
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
