package pressure

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/eviction"
)

// After a pod was evicted the next one stays until the first has gone and the disk has had time to show it, or until it
// has been waited for in vain.
func TestOneEvictionTakesEffectBeforeTheNext(t *testing.T) {
	begin := time.Now()
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	for _, c := range []struct {
		rule       string
		gone, next int // seconds, in which the pod has gone and another one may
	}{
		{"it goes at once", 0, 10},
		{"it takes its time", 6, 15},
		{"it does not go", 1000, 39},
	} {
		w := Watch{going: &corev1.Pod{}, since: begin, next: at(10)}
		for second := range c.next + 1 {
			waits := w.waits(at(second), func(*corev1.Pod) bool { return second < c.gone })
			if want := second < c.next; waits != want {
				t.Errorf("%s: after %d s waits %t", c.rule, second, waits)
			}
		}
	}
}

// TestShortage: others can ask why pods are kept away, and until when.
func TestShortage(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	w := New(Options{Transition: 5 * time.Minute})
	look := func(is bool, after time.Duration) Shortage {
		now := begin.Add(after)
		w.pressure.See(is, now, w.Transition)
		w.note(eviction.Shortage{Signal: "nodefs.available", Threshold: 38 << 20, Available: 12<<20 + 5}, is, now)
		return w.Shortage()
	}
	const what = "nodefs.available is 12Mi, below 38Mi"
	for i, step := range []struct {
		short bool
		after time.Duration
		want  Shortage
	}{
		{false, 0, Shortage{}},
		{true, time.Second, Shortage{true, true, what, begin.Add(time.Second), begin.Add(time.Second + 5*time.Minute)}},
		{true, time.Minute, Shortage{true, true, what, begin.Add(time.Minute), begin.Add(6 * time.Minute)}},
		{false, 2 * time.Minute, Shortage{true, false, what, begin.Add(time.Minute), begin.Add(6 * time.Minute)}},
		{false, 7 * time.Minute, Shortage{}},
	} {
		if got := look(step.short, step.after); got != step.want {
			t.Errorf("step %d: %+v, want %+v", i, got, step.want)
		}
	}
}
