package tend_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/worker"
)

func TestTokensAreLookedAtWhileAPodRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu     sync.Mutex
			looked []time.Time
		)
		w := controltest.New(t)
		defer w.End()
		w.Stop()
		w.Steps = []worker.Step{{
			Name:  "volumes",
			SetUp: func(context.Context, *corev1.Pod, *worker.Sandbox) error { return nil },
			Refresh: func(context.Context, *corev1.Pod) error {
				mu.Lock()
				defer mu.Unlock()
				looked = append(looked, time.Now())
				return nil
			},
			TearDown: func(context.Context, types.UID) error { return nil },
		}}
		w.Start()
		count := func() int {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(looked)
		}
		begin := time.Now()
		w.Create(controltest.Simulate("a", "3h", "0"))
		time.Sleep(90 * time.Minute)
		w.Stop()
		before := count()
		w.Start()
		if count() != before+1 {
			t.Error("a start does not look")
		}
		time.Sleep(2 * time.Hour)
		if !objects.Finished(w.Job("a")) {
			t.Fatal("it runs on")
		}
		// Its life is an hour, so that it is renewed after 48 minutes: there is time for that until 60 are over.
		last := begin
		for _, at := range looked {
			if gap := at.Sub(last); gap > 7*time.Minute {
				t.Errorf("nobody looks for %v", gap)
			}
			last = at
		}
		if over := last.Sub(begin); over > 3*time.Hour+time.Minute || over < 170*time.Minute {
			t.Errorf("it is looked at for %v", over)
		}
		now := count()
		time.Sleep(time.Hour)
		if count() != now {
			t.Error("it is looked at after its end")
		}
	})
}
