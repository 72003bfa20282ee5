package reach

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestConnectionsThatBeginAsTheClientLeaves: the library may read the end of what a client has sent before it has begun to forward
// what came just before, which is delivered all the same.
func TestConnectionsThatBeginAsTheClientLeaves(t *testing.T) {
	for name, begins := range map[string][]time.Duration{
		"none": nil, "before": {0}, "after": {settledTime / 2}, "long after": {graceTime - settledTime}, "several": {0, settledTime / 2, settledTime / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &forwarding{ctx: t.Context(), visit: newVisit()}
				var delivered atomic.Int32
				for _, after := range begins {
					go func() {
						time.Sleep(after)
						d := &delivery{done: make(chan struct{})}
						end := f.track(d)
						time.Sleep(20 * time.Second)
						delivered.Add(1)
						close(d.done)
						end()
					}()
				}
				synctest.Wait()
				begin := time.Now()
				f.deliver()
				synctest.Wait()
				if delivered := int(delivered.Load()); delivered != len(begins) {
					t.Errorf("%d of %d are delivered", delivered, len(begins))
				}
				if took := time.Since(begin); len(begins) == 0 && took > 2*graceTime {
					t.Errorf("it takes %v", took)
				}
			})
		})
	}
}
