package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// TestJobIsStoredWithItsPods creates Jobs while the loop is idle: what it makes of them is in the same commit, but for what
// would keep their writer waiting.
func TestJobIsStoredWithItsPods(t *testing.T) {
	for name, c := range map[string]struct {
		pods        int32
		least, most int
	}{
		"few":  {3, 3, 3},
		"many": {900, 1, 2 * loop.JoinedBudget},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				synctest.Wait()
				stored := func() (n int) {
					_ = w.Store.View(func(s *store.Snapshot) error { n = s.Count(objects.Pods + "/"); return nil })
					return n
				}
				j := controltest.Simulate("j", "1h", "0")
				j.Spec.Parallelism, j.Spec.Completions = ptr.To(c.pods), ptr.To(c.pods)
				w.Create(j)
				if n := stored(); n < c.least || n > c.most {
					t.Errorf("%d of %d pods are stored with the Job", n, c.pods)
				}
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if n := stored(); n != int(c.pods) {
					t.Errorf("%d of %d pods are stored in the end", n, c.pods)
				}
			})
		})
	}
}
