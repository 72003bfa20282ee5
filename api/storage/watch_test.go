package storage

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

func startWatch(t testing.TB, ctx context.Context, s *Storage, opts storage.ListOptions) watch.Interface {
	t.Helper()
	opts.Recursive = true
	w, err := s.Watch(ctx, "/pods", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// next returns the next event as a line.
func next(t testing.TB, w watch.Interface) string {
	t.Helper()
	e, ok := <-w.ResultChan()
	if !ok {
		return "closed"
	}
	if status, ok := e.Object.(*metav1.Status); ok {
		return fmt.Sprintf("%s %d %s %s", e.Type, status.Code, status.Reason, status.Message)
	}
	m, err := meta.Accessor(e.Object)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s@%s %s", e.Type, m.GetName(), m.GetResourceVersion(), m.GetLabels()["l"]))
}

func expect(t testing.TB, w watch.Interface, want ...string) {
	t.Helper()
	for _, line := range want {
		if got := next(t, w); got != line {
			t.Fatalf("event %q, want %q", got, line)
		}
	}
}

func TestAWatcherWithASelectorSeesObjectsComeAndGo(t *testing.T) {
	s := pods(t)
	create(t, s, pod("a", map[string]string{"l": "x"}))
	w := startWatch(t, t.Context(), s, storage.ListOptions{Predicate: selecting("l=x")})
	expect(t, w, "ADDED a@2 x")
	update(t, s, "a", func(p *corev1.Pod) { p.Labels["l"] = "y" })
	update(t, s, "a", func(p *corev1.Pod) { p.Generation++ })
	update(t, s, "a", func(p *corev1.Pod) { p.Labels["l"] = "x" })
	update(t, s, "a", func(p *corev1.Pod) { p.Generation++ })
	remove(t, s, "a")
	create(t, s, pod("b", map[string]string{"l": "y"}))
	remove(t, s, "b")
	create(t, s, pod("c", map[string]string{"l": "x"}))
	// Each carries the version of the change; the object that left is as it was before.
	expect(t, w, "DELETED a@3 x", "ADDED a@5 x", "MODIFIED a@6 x", "DELETED a@7 x", "ADDED c@10 x")
}

func TestAWatcherSeesEveryChangeOfATransactionInOrder(t *testing.T) {
	s := pods(t)
	create(t, s, pod("job", map[string]string{"l": "running"}))
	w := startWatch(t, t.Context(), s, storage.ListOptions{ResourceVersion: "2", Predicate: storage.Everything})
	err := s.store.Update(t.Context(), func(tx *store.Tx) error {
		for _, l := range []string{"interim", "final"} {
			o, err := s.encode("pods/default/job", pod("job", map[string]string{"l": l}))
			if err != nil {
				return err
			}
			tx.Put(o)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, w, "MODIFIED job@3 interim", "MODIFIED job@4 final")
}

func TestAWatcherGoesOnAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	s := newPods(openStore(t, path, store.Options{}))
	create(t, s, pod("a", nil))
	w := startWatch(t, t.Context(), s, storage.ListOptions{Predicate: storage.Everything})
	expect(t, w, "ADDED a@2")
	create(t, s, pod("b", nil))
	remove(t, s, "a")
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	s = newPods(openStore(t, path, store.Options{}))
	w = startWatch(t, t.Context(), s, storage.ListOptions{ResourceVersion: "2", Predicate: storage.Everything})
	expect(t, w, "ADDED b@3", "DELETED a@4")
}

func TestAWatcherThatIsTooSlowIsSentAway(t *testing.T) {
	s := newPods(openStore(t, filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true, HistoryBytes: 10_000}))
	first := create(t, s, pod("a", nil))
	w := startWatch(t, t.Context(), s, storage.ListOptions{ResourceVersion: first.ResourceVersion, Predicate: storage.Everything})
	for range 3 * (pageSize + eventBuffer) {
		update(t, s, "a", func(p *corev1.Pod) {
			p.Generation++
			p.Annotations = map[string]string{"x": strings.Repeat("x", 500)}
		})
	}
	last := ""
	for {
		line := next(t, w)
		if line == "closed" {
			break
		}
		last = line
	}
	if want := "ERROR 410 Expired The resourceVersion for the provided watch is too old."; last != want {
		t.Errorf("last event %q, want %q", last, want)
	}
}

func TestInitialEventsAreSentInPagesOfOneVersion(t *testing.T) {
	s := pods(t)
	const objects = 2*pageSize + 10
	for i := range objects {
		create(t, s, pod(fmt.Sprintf("p%04d", i), nil))
	}
	predicate := storage.Everything
	predicate.AllowWatchBookmarks = true
	w := startWatch(t, t.Context(), s, storage.ListOptions{SendInitialEvents: ptr.To(true), Predicate: predicate})
	expect(t, w, "ADDED p0000@2")
	// What changes while the watcher is still receiving what exists comes after the bookmark that ends that.
	remove(t, s, fmt.Sprintf("p%04d", objects-1))
	for i := 1; i < objects; i++ {
		expect(t, w, fmt.Sprintf("ADDED p%04d@%d", i, i+2))
	}
	expect(t, w, fmt.Sprintf("BOOKMARK @%d", objects+1), fmt.Sprintf("DELETED p%04d@%d", objects-1, objects+2))
}

func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pods(t)
		defer s.store.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+30*time.Second)
		defer cancel()
		predicate := storage.Everything
		predicate.AllowWatchBookmarks = true
		w := startWatch(t, ctx, s, storage.ListOptions{ResourceVersion: "1", Predicate: predicate})
		begin := time.Now()
		jobs := New(s.store, scheme.StorageCodec, "/jobs", func() runtime.Object { return &corev1.Pod{} })
		for _, want := range []struct {
			line  string
			after time.Duration
		}{
			{"BOOKMARK @2", time.Minute},
			{"BOOKMARK @3", 2 * time.Minute},
			{"BOOKMARK @4", 2*time.Minute + 28*time.Second}, // shortly before the watch ends
		} {
			// Changes of others move the bookmark on.
			name := fmt.Sprint(time.Now().Unix())
			if err := jobs.Create(ctx, "/jobs/default/"+name, pod(name, nil), nil, 0); err != nil {
				t.Fatal(err)
			}
			expect(t, w, want.line)
			if got := time.Since(begin); got != want.after {
				t.Errorf("%s after %v, want %v", want.line, got, want.after)
			}
		}
		expect(t, w, "closed")
	})
}

func TestAWatcherThatPanicsIsToldSo(t *testing.T) {
	s := pods(t)
	if err := s.Create(t.Context(), podKey("a"), pod("a", nil), nil, 0); err != nil {
		t.Fatal(err)
	}
	s.newFunc = func() runtime.Object { panic("fault") }
	s.Panicked = func(_ context.Context, reason any) error {
		return apierrors.NewInternalError(fmt.Errorf("said %v", reason))
	}
	w, err := s.Watch(t.Context(), "/pods/", storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	e, ok := <-w.ResultChan()
	if status, isStatus := e.Object.(*metav1.Status); !ok || e.Type != watch.Error || !isStatus || status.Code != 500 ||
		!strings.Contains(status.Message, "said fault") {
		t.Errorf("%+v", e)
	}
	if _, ok := <-w.ResultChan(); ok {
		t.Error("the watch goes on")
	}
}

// Events of large objects do not pile up before a client that does not read.
func TestLargeEventsWaitOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pods(t)
		for i := range 20 {
			p := pod(fmt.Sprintf("p%02d", i), nil)
			if i%2 == 0 {
				p.Annotations = map[string]string{"large": strings.Repeat("x", 1<<20)}
			}
			if err := s.Create(t.Context(), podKey(p.Name), p, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, from := range []string{"0", "1"} {
			ctx, cancel := context.WithCancel(t.Context())
			w, err := s.Watch(ctx, "/pods/", storage.ListOptions{ResourceVersion: from, Recursive: true, Predicate: storage.Everything})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				time.Sleep(time.Minute)
				if n := len(w.ResultChan()); n > 2 {
					t.Errorf("%d events wait", n)
				}
				if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.Pod).Name != fmt.Sprintf("p%02d", i) {
					t.Fatalf("from %s: %v", from, e)
				}
			}
			cancel()
			synctest.Wait()
		}
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
	})
}
