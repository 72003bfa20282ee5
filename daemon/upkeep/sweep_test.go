package upkeep_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/upkeep"
	"github.com/jobd/jobd/store"
)

func TestHoweverManyEventsExpireTheyGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		over := time.Now().Add(10 * time.Second).Unix()
		w.Write(func(tx *store.Tx) error {
			for i := range 5 * loop.Budget {
				tx.Put(store.Object{Key: store.Key(objects.Events, "default", fmt.Sprint(i)), Expires: over})
			}
			return nil
		})
		time.Sleep(10*time.Second + upkeep.SweepInterval)
		synctest.Wait()
		_ = w.Store.View(func(s *store.Snapshot) error {
			if n := s.Count(objects.Events + "/"); n > 0 {
				t.Errorf("%d events are left", n)
			}
			return nil
		})
	})
}
