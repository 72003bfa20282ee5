package disk

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
		w := Pressure{going: &corev1.Pod{}, since: begin, next: at(10)}
		for second := range c.next + 1 {
			waits := w.waits(at(second), func(*corev1.Pod) bool { return second < c.gone })
			if want := second < c.next; waits != want {
				t.Errorf("%s: after %d s waits %t", c.rule, second, waits)
			}
		}
	}
}
