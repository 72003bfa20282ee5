package receivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/scheme"
	teller "github.com/jobd/jobd/daemon/notices"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// fake is a sender that does what it is told to.
type fake struct {
	mu   sync.Mutex
	took []string // notices that it was given, in order
	does func(ctx context.Context, n *notify.Pending) error
}

func (f *fake) send(ctx context.Context, n *notify.Pending) error {
	f.mu.Lock()
	f.took = append(f.took, n.ID)
	does := f.does
	f.mu.Unlock()
	if does == nil {
		return nil
	}
	return does(ctx, n)
}

// rig is a store with deliveries to two receivers.
type rig struct {
	t         *testing.T
	store     *store.Store
	senders   map[string]*fake
	receivers notify.Receivers
	explained atomic.Int32
	log       strings.Builder
	of        *Deliveries
	prepare   func() // called before it runs; nil for nothing
	stop      func()
}

func newRig(t *testing.T) *rig {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, store: s, senders: map[string]*fake{"a": {}, "b": {}}, receivers: notify.Receivers{
		"a": {Command: &notify.Command{Args: []string{"/a"}}}, "b": {Command: &notify.Command{Args: []string{"/b"}}},
	}}
	ns := &corev1.Namespace{}
	ns.Name = "team"
	value, err := scheme.Encode(ns)
	if err != nil {
		t.Fatal(err)
	}
	r.update(func(tx *store.Tx) { tx.Put(store.Object{Key: store.Key(objects.Namespaces, "", "team"), Value: value}) })
	r.start()
	return r
}

func (r *rig) start() {
	r.of = New(Options{
		Store: r.store, Receivers: r.receivers, Host: "box", EventTTL: time.Hour, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Explain: func(context.Context, notify.Object) (string, error) {
			return fmt.Sprint("why ", r.explained.Add(1)), nil
		},
	})
	for name, s := range r.senders {
		if r.receivers[name] != nil {
			r.of.senders[name] = s
		}
	}
	if r.prepare != nil {
		r.prepare()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.of.Run(ctx) }()
	r.stop = func() { cancel(); <-ended }
}

func (r *rig) end() {
	r.stop()
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) update(fn func(tx *store.Tx)) {
	r.t.Helper()
	if err := r.store.Update(context.Background(), func(tx *store.Tx) error { fn(tx); return nil }); err != nil {
		r.t.Fatal(err)
	}
}

// tell writes a notice as the control loop does.
func (r *rig) tell(receiver, id, job string) {
	r.t.Helper()
	value, err := json.Marshal(notify.Pending{Notice: notify.Notice{
		ID: id, Kind: notices.Failed, At: time.Now(), Object: notify.Object{Kind: "Job", Namespace: "team", Name: job, UID: job},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.update(func(tx *store.Tx) {
		tx.Put(store.Object{Key: teller.Key(receiver, tx.Version()+1, "team"), Value: value})
	})
}

func (r *rig) took(receiver string, want ...string) {
	r.t.Helper()
	synctest.Wait()
	s := r.senders[receiver]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.took, want) {
		r.t.Errorf("%s took %q, want %q", receiver, s.took, want)
	}
}

func (r *rig) left(want int) {
	r.t.Helper()
	synctest.Wait()
	n := 0
	_ = r.store.View(func(s *store.Snapshot) error {
		s.Keys(objects.Notices+"/", "", func(string) bool { n++; return true })
		return nil
	})
	if n != want {
		r.t.Errorf("%d notices are left, want %d", n, want)
	}
}

var errRefused = errors.New("500 Internal Server Error")

// A receiver that fails is tried again, with the same notice, in the order of each Job; others do not wait for it.
func TestOrderAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.end()
		var said []string
		r.senders["a"].does = func(_ context.Context, n *notify.Pending) error {
			said = append(said, n.ID+" "+n.Text)
			if n.ID == "1" && len(said) < 4 {
				return errRefused
			}
			return nil
		}
		r.tell("a", "1", "x")
		r.tell("a", "2", "x")
		r.tell("a", "3", "y")
		r.tell("b", "4", "x")
		r.took("b", "4")
		time.Sleep(time.Minute)
		r.took("a", "1", "3", "1", "1", "2")
		if want := []string{"1 why 1", "3 why 3", "1 why 1", "1 why 1", "2 why 4"}; len(said) != 5 || said[0] != want[0] && said[0] != "1 why 2" {
			t.Errorf("said %q, want as %q", said, want)
		}
		for _, s := range said {
			if strings.HasPrefix(s, "1 ") && s != said[0] {
				t.Errorf("a notice was changed: %q, then %q", said[0], s)
			}
		}
		r.left(0)
		list, err := r.of.List()
		if err != nil || len(list.Items) != 2 || list.Items[0].Delivered != 3 || list.Items[0].LastError != "" || list.Items[0].To != "/a" {
			t.Errorf("%+v: %v", list, err)
		}
	})
}

// One that hangs is given up after its time, and holds up nobody else, also not the end of the daemon.
func TestAReceiverThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.end()
		r.senders["a"].does = func(ctx context.Context, _ *notify.Pending) error { <-ctx.Done(); return ctx.Err() }
		r.tell("a", "1", "x")
		r.tell("b", "2", "x")
		r.took("b", "2")
		time.Sleep(31 * time.Second)
		list, _ := r.of.List()
		if !strings.Contains(list.Items[0].LastError, "longer than 30s") || list.Items[0].Pending != 1 {
			t.Errorf("%+v", list.Items[0])
		}
		time.Sleep(6 * time.Second)
		r.took("a", "1", "1")
		r.stop()
		r.senders["a"].does = nil
		r.start() // the attempt that was under way counts for nothing
		r.took("a", "1", "1", "1")
		r.left(0)
	})
}

// What cannot be delivered for days is lost: an event, a count, and whom it concerned.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.end()
		r.senders["a"].does = func(context.Context, *notify.Pending) error { return errRefused }
		r.tell("a", "1", "x")
		time.Sleep(notify.GiveUp + time.Hour)
		r.left(0)
		tries := len(r.senders["a"].took)
		time.Sleep(notify.GiveUp)
		if len(r.senders["a"].took) != tries {
			t.Error("it is tried again")
		}
		list, _ := r.of.List()
		if s := list.Items[0].Standing; s.Lost != 1 || s.LostLast != "team/jobs/x" || s.LastError != errRefused.Error() {
			t.Errorf("%+v", s)
		}
		var said []string
		_ = r.store.View(func(s *store.Snapshot) error {
			return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
				said = append(said, e.Reason+" "+e.InvolvedObject.Name+": "+e.Message)
				return nil
			})
		})
		if want := []string{`NoticeNotDelivered x: a could not be told of "failed"`}; !slices.Equal(said, want) {
			t.Errorf("events %q", said)
		}
	})
}

// What a receiver refuses for good is lost at once, and holds up nothing.
func TestLostAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.end()
		r.senders["a"].does = func(_ context.Context, n *notify.Pending) error {
			if n.ID == "1" {
				return &forGood{errRefused}
			}
			return nil
		}
		r.tell("a", "1", "x")
		r.tell("a", "2", "x")
		r.took("a", "1", "2")
		r.left(0)
		if list, _ := r.of.List(); list.Items[0].Lost != 1 || list.Items[0].Delivered != 1 {
			t.Errorf("%+v", list.Items[0])
		}
	})
}

// What waits for a receiver that is taken out of the settings is lost at once, and what others wait for is not.
func TestAReceiverThatIsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.end()
		r.senders["a"].does = func(context.Context, *notify.Pending) error { return errRefused }
		r.senders["b"].does = r.senders["a"].does
		r.tell("a", "1", "x")
		r.tell("b", "2", "x")
		synctest.Wait()
		r.stop()
		delete(r.receivers, "a")
		r.start()
		r.left(1)
		r.stop()
		r.receivers = nil
		time.Sleep(time.Second) // events have the time in their names
		r.start()
		r.left(0)
		if text := r.log.String(); strings.Count(text, "a notice is lost") != 2 {
			t.Errorf("the log has %s", text)
		}
		var said []string
		_ = r.store.View(func(s *store.Snapshot) error {
			return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
				said = append(said, e.Message)
				return nil
			})
		})
		slices.Sort(said)
		if want := []string{`a could not be told of "failed"`, `b could not be told of "failed"`}; !slices.Equal(said, want) {
			t.Errorf("events %q", said)
		}
		for range 2 { // over a restart
			list, err := r.of.List()
			if err != nil || len(list.Items) != 2 || list.Items[0].Kind != "" || list.Items[0].Lost != 1 || list.Items[0].LostError != errFormer.Error() {
				t.Errorf("%+v: %v", list, err)
			}
			r.stop()
			r.start()
			synctest.Wait()
		}
		time.Sleep(40 * 24 * time.Hour) // after which it is forgotten
		if list, _ := r.of.List(); len(list.Items) > 0 {
			t.Errorf("%+v", list)
		}
	})
}

// What some of several recipients have is not sent to them again, holds up nothing that is new to them, and is told if it is lost to
// the others.
func TestDeliveredInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.end()
		var mu sync.Mutex
		var over []string // of each attempt
		later := true
		refuse := func(to string, forGood bool) refusal { return refusal{to, errRefused, forGood} }
		r.senders["a"].does = func(_ context.Context, p *notify.Pending) error {
			mu.Lock()
			defer mu.Unlock()
			over = append(over, p.ID+strings.Join(p.Over, ""))
			switch {
			case p.ID == "1" && len(p.Over) == 0:
				return outcome([]string{"x", "y", "z"}, []refusal{refuse("y", false), refuse("z", true)}, false)
			case p.ID == "1" && later:
				return outcome([]string{"y"}, []refusal{refuse("y", false)}, true)
			}
			return nil
		}
		r.tell("a", "1", "x")
		r.tell("a", "2", "x")
		synctest.Wait()
		mu.Lock()
		if got, want := strings.Join(over, " "), "1 2"; got != want {
			t.Errorf("attempts %q, want %q", got, want)
		}
		mu.Unlock()
		r.left(1)
		time.Sleep(time.Minute)
		mu.Lock()
		later = false
		mu.Unlock()
		r.stop()
		r.start()
		time.Sleep(10 * time.Minute)
		r.left(0)
		for _, of := range over[2:] {
			if of != "1xz" {
				t.Errorf("attempts %q", over)
			}
		}
		list, _ := r.of.List()
		if s := list.Items[0].Standing; s.Delivered != 2 || s.Lost != 1 || s.LostLast != "team/jobs/x" {
			t.Errorf("%+v", s)
		}
		var said []string
		_ = r.store.View(func(s *store.Snapshot) error {
			return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
				said = append(said, e.Message)
				return nil
			})
		})
		if want := []string{`not all that a stands for could be told of "failed"`}; !slices.Equal(said, want) {
			t.Errorf("events %q", said)
		}
		r.senders["a"].does = func(context.Context, *notify.Pending) error {
			return outcome([]string{"x", "y"}, []refusal{refuse("y", false)}, true)
		}
		r.tell("a", "3", "x")
		time.Sleep(notify.GiveUp + time.Hour)
		r.left(0)
		if list, _ := r.of.List(); list.Items[0].Lost != 2 || list.Items[0].Delivered != 2 {
			t.Errorf("%+v", list.Items[0])
		}
	})
}

// What was delivered, and cannot be written down, is not delivered again until the daemon is started anew, and then by the same id.
func TestWhatCannotBeWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.end()
		var full atomic.Bool
		fill := func() {
			update := r.of.update
			r.of.update = func(ctx context.Context, fn func(tx *store.Tx) error) error {
				if full.Load() {
					return store.ErrFull
				}
				return update(ctx, fn)
			}
		}
		sent := func(context.Context, *notify.Pending) error { full.Store(true); return nil } // the disk is full from then on
		r.stop()
		r.senders["a"].does = sent
		r.prepare = fill
		r.start()
		r.tell("a", "1", "x")
		r.tell("a", "2", "y")
		time.Sleep(5 * time.Hour)
		r.took("a", "1")
		list, err := r.of.List()
		if err != nil || list.Items[0].Unwritten != store.ErrFull.Error() || list.Items[0].Pending != 2 || list.Items[1].Unwritten != "" {
			t.Errorf("%+v: %v", list.Items, err)
		}
		r.stop() // which it does not hold up
		r.start()
		time.Sleep(5 * time.Hour)
		r.took("a", "1", "1")
		r.senders["a"].mu.Lock()
		r.senders["a"].does = nil
		r.senders["a"].mu.Unlock()
		full.Store(false)
		time.Sleep(2 * time.Minute)
		r.took("a", "1", "1", "2")
		r.left(0)
		if list, _ := r.of.List(); list.Items[0].Unwritten != "" || list.Items[0].Delivered != 2 {
			t.Errorf("%+v", list.Items[0])
		}
	})
}

// A receiver that asks to be left alone gets nothing before then, not even what is about others, but for a service of checks, which may mean
// one of them. None is left alone for longer than an hour, and all gets there in the end.
func TestAReceiverThatAsksToBeLeftAlone(t *testing.T) {
	for rule, c := range map[string]struct {
		asks  time.Duration
		check bool
		took  map[time.Duration]string // by how long after
	}{
		"for less than it is left alone anyway": {time.Second, false, map[time.Duration]string{2 * time.Second: "1 2", 6 * time.Second: "1 2 1"}},
		"for a while":                           {20 * time.Minute, false, map[time.Duration]string{19 * time.Minute: "1", 21 * time.Minute: "1 1 2"}},
		"for ever":                              {1 << 62, false, map[time.Duration]string{59 * time.Minute: "1", 61 * time.Minute: "1 1 2"}},
		"and has others to watch over":          {20 * time.Minute, true, map[time.Duration]string{19 * time.Minute: "1 2", 21 * time.Minute: "1 2 1"}},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.end()
				if c.check {
					r.receivers["a"].Command, r.receivers["a"].Healthcheck = nil, &notify.Healthcheck{URL: "http://h/{namespace}_{name}"}
				}
				first := true
				r.senders["a"].does = func(_ context.Context, n *notify.Pending) error {
					if n.ID != "1" || !first {
						return nil
					}
					first = false
					return &refusedCall{429, "429 Too Many Requests", c.asks}
				}
				begin := time.Now()
				r.tell("a", "1", "x")
				synctest.Wait()
				r.tell("a", "2", "y")
				r.tell("b", "3", "x")
				r.took("b", "3")
				for _, after := range slices.Sorted(maps.Keys(c.took)) {
					time.Sleep(time.Until(begin.Add(after)))
					r.took("a", strings.Fields(c.took[after])...)
				}
				r.left(0)
			})
		})
	}
}

// What a receiver has asked for stands over a restart of the daemon.
func TestWhatWasAskedIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.end()
		r.senders["a"].does = func(context.Context, *notify.Pending) error { return &refusedCall{503, "503", 50 * time.Minute} }
		r.tell("a", "1", "x")
		r.took("a", "1")
		r.stop()
		r.start()
		time.Sleep(49 * time.Minute)
		r.took("a", "1")
		time.Sleep(2 * time.Minute)
		r.took("a", "1", "1")
	})
}
