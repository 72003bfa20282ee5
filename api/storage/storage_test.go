package storage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

func openStore(t testing.TB, path string, o store.Options) *store.Store {
	t.Helper()
	o.Words = Words
	s, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newPods(s *store.Store) *Storage {
	return New(s, scheme.StorageCodec, "/pods", func() runtime.Object { return &corev1.Pod{} })
}

func pods(t testing.TB) *Storage {
	t.Helper()
	return newPods(openStore(t, filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true}))
}

func podKey(name string) string { return "/pods/default/" + name }

func pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: labels,
	}}
}

func create(t testing.TB, s *Storage, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	out := &corev1.Pod{}
	if err := s.Create(context.Background(), podKey(p.Name), p, out, 0); err != nil {
		t.Fatal(err)
	}
	return out
}

func update(t testing.TB, s *Storage, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	out := &corev1.Pod{}
	err := s.GuaranteedUpdate(context.Background(), podKey(name), out, false, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			change(obj.(*corev1.Pod))
			return obj, nil
		}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func remove(t testing.TB, s *Storage, name string) {
	t.Helper()
	err := s.Delete(context.Background(), podKey(name), &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func selecting(selector string) storage.SelectionPredicate {
	l, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return storage.SelectionPredicate{Label: l, Field: fields.Everything(), GetAttrs: storage.DefaultNamespaceScopedAttr}
}

func TestUIDAndOwnersAreKnownToTheStore(t *testing.T) {
	s := pods(t)
	p := pod("a", nil)
	p.OwnerReferences = []metav1.OwnerReference{{UID: "job"}, {UID: "other"}}
	create(t, s, p)
	err := s.store.View(func(sn *store.Snapshot) error {
		o, ok := sn.Get(store.Key("pods", "default", "a"))
		if !ok || o.UID != "uid-a" || !slices.Equal(o.Owners, []string{"job", "other"}) {
			t.Errorf("%v %+v", ok, o)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	update(t, s, "a", func(p *corev1.Pod) { DropOwner(p, "job") })
	err = s.store.View(func(sn *store.Snapshot) error {
		sn.Owned("job", "", "", func(key string) bool { t.Errorf("job still owns %s", key); return true })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnUpdateThatChangesNothingIsNotWritten(t *testing.T) {
	s := pods(t)
	before := create(t, s, pod("a", nil))
	after := update(t, s, "a", func(*corev1.Pod) {})
	if after.ResourceVersion != before.ResourceVersion || s.store.Version() != 2 {
		t.Errorf("version %s, store's %d", after.ResourceVersion, s.store.Version())
	}
}

func TestNothingIsLeftOfWhatAnObjectWasReadInto(t *testing.T) {
	s := pods(t)
	create(t, s, pod("a", map[string]string{"l": "x"}))
	used := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"old"}, Labels: map[string]string{"old": ""}}}
	}
	check := func(what string, p *corev1.Pod, err error) {
		t.Helper()
		if err != nil || len(p.Finalizers) > 0 || len(p.Labels) != 1 {
			t.Errorf("%s: %v, finalizers %v, labels %v", what, err, p.Finalizers, p.Labels)
		}
	}
	out := used()
	check("get", out, s.Get(t.Context(), podKey("a"), storage.GetOptions{}, out))
	out = used()
	check("update", out, s.GuaranteedUpdate(t.Context(), podKey("a"), out, false, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			obj.(*corev1.Pod).Generation++
			return obj, nil
		}), nil))
	out = used()
	check("create", out, s.Create(t.Context(), podKey("b"), pod("b", map[string]string{"l": "x"}), out, 0))
	out = used()
	check("delete", out, s.Delete(t.Context(), podKey("a"), out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
}

func TestUpdatesOfManyAreAllCounted(t *testing.T) {
	s := pods(t)
	create(t, s, pod("a", nil))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				update(t, s, "a", func(p *corev1.Pod) { p.Generation++ })
			}
		})
	}
	wg.Wait()
	out := &corev1.Pod{}
	if err := s.Get(t.Context(), podKey("a"), storage.GetOptions{}, out); err != nil || out.Generation != 200 {
		t.Errorf("%d updates counted, %v", out.Generation, err)
	}
}

func TestPagesOfAListShowOneVersionWhileOthersWrite(t *testing.T) {
	s := pods(t)
	for i := range 10 {
		create(t, s, pod(fmt.Sprintf("p%d", i), nil))
	}
	predicate := storage.Everything
	predicate.Limit = 3
	var got []string
	version := ""
	for page := 0; ; page++ {
		list := &corev1.PodList{}
		if err := s.GetList(t.Context(), "/pods/default", storage.ListOptions{Recursive: true, Predicate: predicate}, list); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			got = append(got, p.Name+"@"+p.ResourceVersion)
		}
		if page == 0 {
			version = list.ResourceVersion
		}
		if list.ResourceVersion != version {
			t.Errorf("page %d is of version %s, the first of %s", page, list.ResourceVersion, version)
		}
		if list.Continue == "" {
			break
		}
		if left := 10 - len(got); list.RemainingItemCount == nil || *list.RemainingItemCount != int64(left) {
			t.Errorf("page %d: remaining %v, want %d", page, list.RemainingItemCount, left)
		}
		predicate.Continue = list.Continue
		// Behind, ahead, and in between.
		update(t, s, "p0", func(p *corev1.Pod) { p.Generation++ })
		update(t, s, "p9", func(p *corev1.Pod) { p.Generation++ })
		create(t, s, pod(fmt.Sprintf("p5-%d", page), nil))
		if page == 0 {
			remove(t, s, "p8")
		}
	}
	want := []string{"p0@2", "p1@3", "p2@4", "p3@5", "p4@6", "p5@7", "p6@8", "p7@9", "p8@10", "p9@11"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestExpire(t *testing.T) {
	s := pods(t)
	now := time.Unix(1_000_000, 0)
	s.now = func() time.Time { return now }
	for i, ttl := range []uint64{0, 10, 20} {
		if err := s.Create(t.Context(), podKey(fmt.Sprint(i)), pod(fmt.Sprint(i), nil), nil, ttl); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (names []string) {
		list := &corev1.PodList{}
		if err := s.GetList(t.Context(), "/pods", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
		return names
	}
	expiring := func(after int64, wantNext int64, want ...string) {
		t.Helper()
		next, err := expire(t.Context(), s.store, now.Add(time.Duration(after)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if wantNext == 0 != next.IsZero() || wantNext != 0 && next.Unix() != now.Unix()+wantNext {
			t.Errorf("after %d s: next is %v", after, next)
		}
		if got := left(); !slices.Equal(got, want) {
			t.Errorf("after %d s: left are %v, want %v", after, got, want)
		}
	}
	expiring(9, 10, "0", "1", "2")
	expiring(10, 20, "0", "2")
	// An update keeps the time that an object has, unless it says otherwise.
	update(t, s, "2", func(p *corev1.Pod) { p.Generation++ })
	expiring(19, 20, "0", "2")
	err := s.GuaranteedUpdate(t.Context(), podKey("2"), &corev1.Pod{}, false, nil,
		func(obj runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
			if m.TTL != 20 {
				t.Errorf("told a TTL of %d", m.TTL)
			}
			obj.(*corev1.Pod).Generation++
			return obj, ptr.To[uint64](100), nil
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	expiring(99, 100, "0", "2")
	expiring(100, 0, "0")
}

func TestErrorsOfTheStore(t *testing.T) {
	full := interpret("pods/a", fmt.Errorf("commit: %w", store.ErrFull))
	var status apierrors.APIStatus
	if !errors.As(full, &status) || status.Status().Code != http.StatusInsufficientStorage || !apierrors.IsInternalError(full) ||
		!strings.Contains(full.Error(), "no space left for the database") {
		t.Errorf("full disk: %v", full)
	}
	if err := interpret("pods/a", store.ErrClosed); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("closed: %v", err)
	}
	if err := interpret("pods/a", context.DeadlineExceeded); !storage.IsRequestTimeout(err) {
		t.Errorf("deadline: %v", err)
	}
	if err := interpret("pods/a", context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}

	s := pods(t)
	p := pod("a", nil)
	p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(strings.Repeat("x", 100_000))}}
	if err := s.Create(t.Context(), podKey("a"), p, nil, 0); !apierrors.IsBadRequest(err) {
		t.Errorf("monstrous owner: %v", err)
	}
	w := startWatch(t, t.Context(), s, storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything})
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if got := next(t, w); !strings.HasPrefix(got, "ERROR 503 ServiceUnavailable") {
		t.Errorf("a watcher of a closed store gets %q", got)
	}
	if err := s.Get(t.Context(), podKey("a"), storage.GetOptions{}, &corev1.Pod{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("get: %v", err)
	}
	if err := s.Create(t.Context(), podKey("b"), pod("b", nil), nil, 0); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("create: %v", err)
	}
	if err := s.ReadinessCheck(); err == nil {
		t.Error("a closed store says that it is ready")
	}
}

// A page ends also when it has enough bytes; all pages together have everything, each object once.
func TestPagesOfLargeObjects(t *testing.T) {
	s := pods(t)
	large := strings.Repeat("x", 1<<20)
	const many = 40
	for i := range many {
		p := pod(fmt.Sprintf("p%02d", i), map[string]string{"odd": fmt.Sprint(i % 2)})
		p.Annotations = map[string]string{"large": large}
		if err := s.Create(t.Context(), podKey(p.Name), p, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		selector string
		limit    int64
		pages    int
		names    int
	}{
		{"all at once", "", 0, 1, many},
		{"a limit above what a page holds", "", 500, many / 4, many},
		{"one below", "", 3, 14, many},
		{"what half of them match", "odd=1", 500, many / 8, many / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			selector, err := labels.Parse(c.selector)
			if err != nil {
				t.Fatal(err)
			}
			predicate := storage.SelectionPredicate{Label: selector, Field: fields.Everything(), GetAttrs: storage.DefaultNamespaceScopedAttr, Limit: c.limit}
			var names []string
			held := &countedMemory{}
			for pages := 1; ; pages++ {
				held.bytes = 0
				var l corev1.PodList
				if err := s.GetList(WithMemory(t.Context(), held), "/pods/", storage.ListOptions{Recursive: true, Predicate: predicate}, &l); err != nil {
					t.Fatal(err)
				}
				for _, p := range l.Items {
					names = append(names, p.Name)
				}
				if held.bytes < len(l.Items)<<20 || c.limit > 0 && held.bytes > maxPageBytes+maxObject {
					t.Errorf("a page of %d counted %d bytes", len(l.Items), held.bytes)
				}
				if left := l.RemainingItemCount; l.Continue != "" && c.selector == "" && (left == nil || int(*left) != many-len(names)) {
					t.Errorf("after %d remain %v", len(names), left)
				}
				if predicate.Continue = l.Continue; l.Continue == "" {
					if pages != c.pages {
						t.Errorf("%d pages, want %d", pages, c.pages)
					}
					break
				}
			}
			if len(names) != c.names || !slices.IsSorted(names) || len(slices.Compact(names)) != c.names {
				t.Errorf("%v", names)
			}
		})
	}
	full := &countedMemory{most: 1 << 20}
	err := s.GetList(WithMemory(t.Context(), full), "/pods/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &corev1.PodList{})
	if !apierrors.IsTooManyRequests(err) {
		t.Errorf("a list that may hold no more: %v", err)
	}
	if err := s.Get(WithMemory(t.Context(), full), podKey("p00"), storage.GetOptions{}, &corev1.Pod{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("an object that may not be held: %v", err)
	}
}

// countedMemory counts what a request holds, of which most, if it is not 0, is the most.
type countedMemory struct{ bytes, most, peak int }

func (c *countedMemory) Grow(_ context.Context, n int) bool {
	c.bytes += n
	c.peak = max(c.peak, c.bytes)
	return c.most == 0 || c.bytes <= c.most
}

func (c *countedMemory) Shrink(n int) { c.bytes -= n }

func TestNamespaceOfAKey(t *testing.T) {
	for key, want := range map[string]string{
		"secrets/team/s": "namespaces/team", "secrets/team/": "namespaces/team", "jobs.batch/team/": "namespaces/team",
		"secrets/": "", "nodes/n": "", "nodes/": "", "namespaces/team": "namespaces/team", "namespaces/": "", "": "",
	} {
		if got := namespaceKey(key); got != want {
			t.Errorf("%s is in %q, want %q", key, got, want)
		}
	}
}
