package storage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// encodeEvent does what the handlers do with an object: it encodes it in a form that id names, setting its kind
// meanwhile.
func encodeEvent(t testing.TB, obj runtime.Object, id runtime.Identifier, encodings *atomic.Int64) string {
	t.Helper()
	encode := func(obj runtime.Object, w io.Writer) error {
		encodings.Add(1)
		p := obj.(*corev1.Pod)
		p.Kind = string(id)
		_, err := fmt.Fprintf(w, "%s %s %s %d", p.Kind, p.Name, p.ResourceVersion, p.Generation)
		return err
	}
	var b bytes.Buffer
	var err error
	if co, ok := obj.(runtime.CacheableObject); ok {
		err = co.CacheEncode(id, encode, &b)
	} else {
		err = encode(obj, &b)
	}
	if err != nil {
		t.Error(err)
	}
	return b.String()
}

func TestWatchersShareWhatIsDecodedAndEncoded(t *testing.T) {
	const watchers, changes = 12, 100
	s := pods(t)
	var decodings, encodings atomic.Int64
	newFunc := s.newFunc
	s.newFunc = func() runtime.Object { decodings.Add(1); return newFunc() }

	var all []watch.Interface
	for i := range watchers {
		predicate := storage.Everything
		if i%2 == 1 {
			predicate = selecting("app=pi")
		}
		all = append(all, startWatch(t, context.Background(), s, storage.ListOptions{ResourceVersion: "1", Predicate: predicate}))
	}
	create(t, s, benchPod("a"))
	for _, w := range all { // now all of them have begun
		<-w.ResultChan()
	}
	decodings.Store(0)
	var group sync.WaitGroup
	for i, w := range all {
		group.Go(func() {
			id := runtime.Identifier([]string{"json", "protobuf"}[i/2%2])
			for n := range changes {
				e := <-w.ResultChan()
				want := fmt.Sprintf("%s a %d %d", id, n+3, n+1)
				if got := encodeEvent(t, e.Object, id, &encodings); got != want || e.Type != watch.Modified {
					t.Errorf("watcher %d: %s %q, want %q", i, e.Type, got, want)
				}
			}
		})
	}
	for range changes {
		update(t, s, "a", func(p *corev1.Pod) { p.Generation++ })
	}
	group.Wait()
	// Watchers with a selector look at the previous state, too.
	if n := decodings.Load(); n > 2*changes {
		t.Errorf("%d objects were decoded for %d watchers of %d changes", n, watchers, changes)
	}
	if n := encodings.Load(); n > 2*changes {
		t.Errorf("%d objects were encoded in two forms for %d watchers of %d changes", n, watchers, changes)
	}
}

func TestALoneWatcherSharesNothing(t *testing.T) {
	s := pods(t)
	first := startWatch(t, context.Background(), s, storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything})
	second := startWatch(t, context.Background(), s, storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything})
	create(t, s, benchPod("a"))
	<-first.ResultChan()
	<-second.ResultChan()
	second.Stop()
	for range second.ResultChan() { // until it has ended
	}
	update(t, s, "a", func(p *corev1.Pod) { p.Generation++ })
	if e := <-first.ResultChan(); e.Type != watch.Modified {
		t.Errorf("%v", e)
	} else if _, ok := e.Object.(*corev1.Pod); !ok {
		t.Errorf("%T", e.Object)
	}
	if s.shares.states != nil {
		t.Errorf("%d states are kept for nobody", len(s.shares.states))
	}
}

func TestASlowWatcherReadsForItself(t *testing.T) {
	s := pods(t)
	fast := startWatch(t, context.Background(), s, storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything})
	slow := startWatch(t, context.Background(), s, storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything})
	var encodings atomic.Int64
	const changes = 2 * maxShared
	create(t, s, benchPod("a"))
	want := make([]string, 0, changes)
	<-fast.ResultChan()
	<-slow.ResultChan()
	for range changes {
		update(t, s, "a", func(p *corev1.Pod) { p.Generation++ })
		want = append(want, encodeEvent(t, (<-fast.ResultChan()).Object, "json", &encodings))
	}
	for n := range changes {
		if got := encodeEvent(t, (<-slow.ResultChan()).Object, "json", &encodings); got != want[n] {
			t.Fatalf("%q, want %q", got, want[n])
		}
	}
	if s.shares.bytes > maxSharedBytes || len(s.shares.states) > maxShared || len(s.shares.states) != len(s.shares.order) {
		t.Errorf("%d states of %d bytes are kept", len(s.shares.states), s.shares.bytes)
	}
}
