package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/eviction"
)

// remains are what one pod has left, and how often it was let go of.
type remains struct {
	bytes    int64
	released int
	stuck    error
}

func (r *remains) of(namespace string) Remains {
	return Remains{Namespace: namespace, Bytes: func() int64 { return r.bytes }, Release: func() error { r.released++; return r.stuck }}
}

// What pods have left is that of their namespace until nothing of it is there any more.
func TestLeft(t *testing.T) {
	l := NewLeft(slog.New(slog.DiscardHandler))
	a, b, c, none := &remains{bytes: 3 * little}, &remains{bytes: 2 * little}, &remains{bytes: little}, &remains{bytes: little - 1}
	for name, keep := range map[string]Remains{"a": a.of("one"), "b": b.of("one"), "c": c.of("two")} {
		if !l.Keep(name, keep) || !l.Keeps(name) {
			t.Errorf("%s is not kept", name)
		}
	}
	if l.Keep("none", none.of("one")) || l.Keeps("none") || none.released > 0 {
		t.Error("next to nothing is kept, or let go of")
	}
	if got := fmt.Sprint(l.Of()); got != fmt.Sprint(map[string]int64{"one": 5 * little, "two": little}) {
		t.Errorf("left are %s", got)
	}
	a.bytes, c.bytes, c.stuck = 0, 0, errors.New("busy")
	if got := fmt.Sprint(l.Of()); got != fmt.Sprint(map[string]int64{"one": 2 * little}) {
		t.Errorf("later %s", got)
	}
	if l.Keeps("a") || !l.Keeps("b") || !l.Keeps("c") || a.released != 1 || b.released != 0 {
		t.Errorf("kept: %t, %t, %t; let go of: %d, %d", l.Keeps("a"), l.Keeps("b"), l.Keeps("c"), a.released, b.released)
	}
	c.stuck = nil
	if l.Of(); l.Keeps("c") || c.released != 2 {
		t.Errorf("what could not be let go of is kept: %t, %d", l.Keeps("c"), c.released)
	}
}

func TestLeftIsForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := NewLeft(slog.New(slog.DiscardHandler)), &remains{bytes: little}
		go l.Run(t.Context())
		l.Keep("a", r.of("one"))
		synctest.Wait()
		if !l.Keeps("a") {
			t.Error("it is forgotten at once")
		}
		change := func(bytes int64, stuck error) {
			l.mu.Lock()
			r.bytes, r.stuck = bytes, stuck
			l.mu.Unlock()
			time.Sleep(again)
			synctest.Wait()
		}
		change(0, errors.New("busy"))
		if !l.Keeps("a") || r.released != 1 {
			t.Errorf("while it cannot be let go of, it is kept: %t; tried: %d", l.Keeps("a"), r.released)
		}
		change(0, nil)
		if l.Keeps("a") || r.released != 2 {
			t.Errorf("it is kept: %t; let go of: %d", l.Keeps("a"), r.released)
		}
	})
}

// Whoever has what others have left is not known, but in which namespace.
func TestUsesOfWhatIsLeft(t *testing.T) {
	m := Memory{
		Runtime: held{containers: map[string]int64{"1": 10}},
		Outside: func(context.Context, *corev1.Pod) (int64, bool) { return 0, true },
		Left:    NewLeft(slog.New(slog.DiscardHandler)),
	}
	r := &remains{bytes: 7 * little}
	m.Left.Keep("gone", r.of("theirs"))
	theirs, ours := &corev1.Pod{}, &corev1.Pod{}
	theirs.Namespace, theirs.UID, ours.Namespace, ours.UID = "theirs", "none", "ours", "alone"
	uses := m.Uses(t.Context(), []*corev1.Pod{theirs, ours})
	if uses[0].Volumes.Bytes != 7*little || uses[1].Volumes.Bytes != 0 || uses[1].Containers["c"] != (eviction.Size{Bytes: 10}) {
		t.Errorf("uses are %+v", uses)
	}
	if m.Holds(t.Context(), theirs) {
		t.Error("whoever was evicted for it is waited for as long as it is left")
	}
}
