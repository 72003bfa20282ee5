package control_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// TestClientsThatWriteMuchLeaveDecisionsTheirTurn has clients rewrite large pods as fast as they can, while somebody else creates a
// small Job.
func TestClientsThatWriteMuchLeaveDecisionsTheirTurn(t *testing.T) {
	for name, c := range map[string]struct {
		size, clients, rounds int
		history               int64 // of the store
	}{
		"more than a pass may hold between two passes": {size: 1 << 20, clients: 3 * loop.ByteBudget >> 20 / 2, rounds: 25},
		"more than the store keeps between two passes": {size: 256 << 10, clients: 128, rounds: 20, history: 12 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.Small(t)
				defer w.End()
				w.Stop()
				w.HistoryBytes = c.history
				w.Start()
				for i := range c.clients {
					w.Bare(fmt.Sprint("big", i), "1000", "1h", func(p *corev1.Pod) {
						p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", Value: strings.Repeat("x", c.size)}}
					})
				}
				round := rewriteAll(t, w, c.rounds)
				if round == 0 || round > c.rounds/2 {
					t.Errorf("the Job had its pod in round %d of %d (0: never)", round, c.rounds)
				}
				if lost := w.Figures()["jobd_loop_passes_total{error}"]; lost > float64(c.rounds/5) {
					t.Errorf("%v passes were lost in %d rounds", lost, c.rounds)
				}
			})
		})
	}
}

// rewriteAll has a client for each pod rewrite it again and again. In the third round it creates a Job, and returns the round in
// which that has its pod; 0 for none.
func rewriteAll(t *testing.T, w *controltest.World, rounds int) int {
	var group sync.WaitGroup
	var writes, started atomic.Int32 // started is how many writes there were when the Job had its pod
	pods := w.Pods()
	for _, p := range pods {
		group.Go(func() {
			key := objects.Key(objects.Pods, p)
			for round := range rounds {
				w.Write(func(tx *store.Tx) error {
					if started.Load() == 0 && tx.Count(objects.Pods+"/default/small") > 0 {
						started.Store(writes.Load())
					}
					o, _ := tx.Get(key)
					now := &corev1.Pod{}
					if err := objects.Decode(o, now); err != nil {
						return err
					}
					now.Annotations, now.ResourceVersion = map[string]string{"round": fmt.Sprint(round)}, ""
					value, err := scheme.Encode(now)
					if err != nil {
						return err
					}
					_, err = storage.Put(tx, &store.Object{Key: key, UID: string(p.UID), Value: value})
					return err
				})
				if writes.Add(1) == int32(3*len(pods)) {
					w.Create(controltest.Simulate("small", "1h", "0"))
				}
			}
		})
	}
	group.Wait()
	return int(started.Load()) / len(pods)
}
