package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/internal/fairshare"
)

// TestLargeEventsAreHeldBeforeTheyAreRead has watches that nobody reads, of which two may hold an event at a time.
func TestLargeEventsAreHeldBeforeTheyAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pods(t)
		defer s.store.Close()
		const large, patience = 200 << 10, time.Minute
		share := fairshare.NewBytes(fairshare.BytesLimits{Total: 5 * large / 2, User: 5 * large / 2, Wait: patience})
		held := func() int {
			n, _ := share.Held()
			return n
		}
		open := func() (watch.Interface, *Unread) {
			ctx, unread := WithUnread(t.Context(), func(ctx context.Context, n int) (func(), bool) {
				h := share.Request(fairshare.Client{})
				return h.Release, h.Grow(ctx, n)
			})
			return startWatch(t, ctx, s, storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything}), unread
		}
		var watches []watch.Interface
		var unread []*Unread
		for range 4 {
			w, u := open()
			watches, unread = append(watches, w), append(unread, u)
		}
		create(t, s, pod("small", nil))
		p := pod("large", nil)
		p.Annotations = map[string]string{"x": strings.Repeat("x", large)}
		create(t, s, p)
		time.Sleep(time.Second)
		waiting := 0
		for _, w := range watches { // a small one never waits
			if e := <-w.ResultChan(); nameOf(e) != "small" {
				t.Errorf("%+v", e)
			}
		}
		time.Sleep(patience / 2)
		for _, w := range watches {
			waiting += len(w.ResultChan())
		}
		if waiting != 2 || held() < 2*large {
			t.Fatalf("%d events wait for their readers, of %d bytes", waiting, held())
		}
		// One is read, and what it held goes to another when it was written, not before.
		var read int
		for i, w := range watches {
			if len(w.ResultChan()) > 0 {
				unread[i].Written()
				time.Sleep(2 * time.Second)
				if held() < 2*large {
					t.Error("what waits is counted as written")
				}
				<-w.ResultChan()
				unread[i].Written()
				read = i
				break
			}
		}
		time.Sleep(2 * time.Second)
		waiting = 0
		for i, w := range watches {
			if n := len(w.ResultChan()); i != read {
				waiting += n
			}
		}
		if waiting != 2 {
			t.Errorf("%d events wait for their readers", waiting)
		}
		// The last one is told to come back.
		time.Sleep(patience)
		refused := 0
		for i, w := range watches {
			if i == read {
				continue
			}
			e := <-w.ResultChan()
			if status, is := e.Object.(*metav1.Status); is && e.Type == watch.Error && status.Code == 429 {
				refused++
			}
		}
		for _, u := range unread {
			u.End()
		}
		if refused != 1 || held() != 0 {
			t.Errorf("%d watches are refused, %d bytes are held at the end", refused, held())
		}
	})
}

// TestEventsThatWaitAreFewBytes has a client that does not read while objects of moderate size change.
func TestEventsThatWaitAreFewBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pods(t)
		defer s.store.Close()
		w := startWatch(t, t.Context(), s, storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything})
		for i := range 20 {
			p := pod(fmt.Sprintf("p%02d", i), nil)
			p.Annotations = map[string]string{"x": strings.Repeat("x", 20<<10)}
			create(t, s, p)
		}
		time.Sleep(time.Minute)
		if n := len(w.ResultChan()); n > 3 {
			t.Errorf("%d events wait", n)
		}
		for i := range 20 {
			if e := <-w.ResultChan(); nameOf(e) != fmt.Sprintf("p%02d", i) {
				t.Fatalf("%v comes as number %d", e.Object, i)
			}
		}
	})
}

func nameOf(e watch.Event) string {
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return err.Error()
	}
	return m.GetName()
}
