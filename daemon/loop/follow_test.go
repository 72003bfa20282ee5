package loop_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// follower notes what it is told.
type follower struct {
	loop.Base
	told *[]string
	doom string // a namespace to remove once it is known
	seen *[]*corev1.Namespace
}

func (f *follower) note(what string, ns *corev1.Namespace) {
	*f.told = append(*f.told, fmt.Sprint(what, " ", ns.Name, " ", ns.Labels["is"]))
	*f.seen = append(*f.seen, ns)
}

func (f *follower) Rebuild(*store.Snapshot, time.Time) error {
	*f.told = append(*f.told, "rebuild")
	return nil
}

func (f *follower) NamespaceKnown(ns *corev1.Namespace) { f.note("known", ns) }

func (f *follower) NamespaceChanged(_ *loop.Pass, ns *corev1.Namespace) error {
	f.note("changed", ns)
	return nil
}

func (f *follower) NamespaceGone(_ *loop.Pass, name string) error {
	*f.told = append(*f.told, "gone "+name)
	return nil
}

func (f *follower) Dirty() bool { return f.doom != "" }

func (f *follower) Settle(p *loop.Pass) (bool, error) {
	if f.doom == "" {
		return false, nil
	}
	p.Delete(store.Key(objects.Namespaces, "", f.doom))
	f.doom = ""
	return true, nil
}

// other is a second one, so that an object can be set aside for the first alone.
type other struct{ follower }

// put writes a namespace with a label.
func put(t *testing.T, s *store.Store, name, is string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"is": is}}}
	value, err := scheme.Encode(ns)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		tx.Put(store.Object{Key: store.Key(objects.Namespaces, "", name), UID: name, Value: value})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// All that follow namespaces are told of each before anything else at start, of what clients write, and of what is gone, whoever has
// removed it; one for which a namespace was set aside hears of its end alone. It is decoded once.
func TestNamespacesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.TempDir()+"/jobd.db", store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, name := range []string{"a", "b", "hung"} {
			put(t, s, name, "old")
		}
		list, err := aside.Open(t.TempDir()+"/aside.json", "v1")
		if err != nil {
			t.Fatal(err)
		}
		if err := list.Hang(aside.Hang{Concern: "follower", Key: store.Key(objects.Namespaces, "", "hung"), At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		var told, toldOther []string
		var seen, seenOther []*corev1.Namespace
		l := loop.New(loop.Config{
			Store: s, Inbox: loop.NewInbox(), Events: events.New("test"), Metrics: metrics.New(s), Logger: slog.New(slog.DiscardHandler), Aside: list,
			Controllers: func(*loop.Timers, *loop.Followers) []loop.Controller {
				return []loop.Controller{
					&follower{told: &told, seen: &seen, doom: "b"},
					&other{follower{told: &toldOther, seen: &seenOther}},
				}
			},
		})
		if err := l.Rebuild(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		synctest.Wait()
		put(t, s, "a", "new")
		synctest.Wait()
		for _, name := range []string{"a", "hung"} {
			if err := s.Update(ctx, func(tx *store.Tx) error {
				tx.Delete(store.Key(objects.Namespaces, "", name))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := []string{"known a old", "known b old", "rebuild", "gone b", "changed a new", "gone a", "gone hung"}; !slices.Equal(told, want) {
			t.Errorf("one was told %q, want %q", told, want)
		}
		if want := []string{
			"known a old", "known b old", "known hung old", "rebuild", "gone b", "changed a new", "gone a", "gone hung",
		}; !slices.Equal(toldOther, want) {
			t.Errorf("the other was told %q, want %q", toldOther, want)
		}
		for _, ns := range seen {
			if !slices.Contains(seenOther, ns) {
				t.Errorf("namespace %s was decoded twice", ns.Name)
			}
		}
	})
}
