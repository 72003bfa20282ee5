package worker

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/simulated"
)

// node runs pods as the daemon does: a loop, workers, and a runtime that outlives both.
type node struct {
	t       *testing.T
	runtime *counting
	workers *Pool

	pods   map[types.UID]*corev1.Pod // the store
	issued map[types.UID]*pod.Issued

	mu   sync.Mutex
	seen []duty.Observation
	life int // of the daemon: reports of an earlier life are lost with it
}

// counting is a runtime that counts how often each container was started.
type counting struct {
	*simulated.Runtime
	mu     sync.Mutex
	starts map[string]int
}

func (c *counting) Start(ctx context.Context, r runtime.Container) (runtime.Status, error) {
	held, _ := c.Containers(ctx)
	known := slices.ContainsFunc(held, func(s runtime.Status) bool { return s.ID == r.ID })
	c.mu.Lock()
	if !known {
		c.starts[r.ID]++
	}
	c.mu.Unlock()
	return c.Runtime.Start(ctx, r)
}

type annotationsOnly struct{}

func (annotationsOnly) Spec(_ context.Context, in SpecInput) (*specs.Spec, error) {
	return simulated.Spec(in.Pod, in.Container.Name), nil
}

// start starts the daemon, for the first time or again.
func (n *node) start() {
	if n.workers != nil {
		n.workers.Close()
	}
	n.mu.Lock()
	n.life++
	life := n.life
	n.seen = nil
	n.mu.Unlock()
	n.issued = map[types.UID]*pod.Issued{}
	n.workers = New(Config{
		Runtime: n.runtime, Images: n.runtime, Spec: annotationsOnly{}, Parallel: 4,
		Report: func(list []duty.Observation) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if life == n.life {
				n.seen = append(n.seen, list...)
			}
		},
	})
	seen, err := n.workers.Recover(n.t.Context(), asStored(maps.Values(n.pods)), false)
	if err != nil {
		n.t.Fatal(err)
	}
	n.mu.Lock()
	n.seen = append(seen, n.seen...)
	n.mu.Unlock()
}

// turn is one turn of the loop over all pods.
func (n *node) turn() {
	n.mu.Lock()
	seen := n.seen
	n.seen = nil
	n.mu.Unlock()
	now := time.Now()
	for uid, stored := range n.pods {
		if pod.Done(stored) {
			continue
		}
		if n.issued[uid] == nil {
			n.issued[uid] = &pod.Issued{}
		}
		obj := stored.DeepCopy() // as read from the store
		pod.Apply(obj, n.issued[uid], seen, now)
		actions, _ := pod.Next(obj, n.issued[uid], now)
		n.pods[uid] = obj
		n.issued[uid].Record(actions, now)
		n.workers.Do(obj, actions)
	}
}

func (n *node) done() bool {
	for _, obj := range n.pods {
		if !pod.Done(obj) {
			return false
		}
	}
	return true
}

// TestKilledAgainAndAgain kills the daemon at random times while pods run: every container is started once for each
// attempt, every pod ends as it must, and nothing is left over.
func TestKilledAgainAndAgain(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				n := &node{t: t, runtime: &counting{Runtime: simulated.New(), starts: map[string]int{}}, pods: map[types.UID]*corev1.Pod{}}
				defer n.runtime.Close()
				for i := range 40 {
					obj := newPod(corev1.RestartPolicyNever, "init:i", "a", "b")
					if i%2 == 1 {
						obj.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
					}
					obj.Name, obj.UID = fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i))
					obj.Annotations = map[string]string{simulated.Duration: fmt.Sprintf("%dms", random.IntN(5000)), simulated.ExitCode: "1,1,0"}
					n.pods[obj.UID] = obj
				}
				n.start()
				defer func() { n.workers.Close() }()
				for turns := 0; !n.done(); turns++ {
					if turns > 10_000 {
						t.Fatal("the pods do not end")
					}
					n.turn()
					if random.IntN(4) > 0 {
						synctest.Wait()
					}
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
					if turns < 200 && random.IntN(8) == 0 {
						n.start()
					}
				}
				for id, times := range n.runtime.starts {
					if times != 1 {
						t.Errorf("%s was started %d times", id, times)
					}
				}
				for _, obj := range n.pods {
					want, restarts := corev1.PodFailed, int32(0)
					if obj.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
						want, restarts = corev1.PodSucceeded, 2
					}
					if obj.Status.Phase != want {
						t.Errorf("pod %s is %s, want %s", obj.Name, obj.Status.Phase, want)
					}
					for _, c := range obj.Status.ContainerStatuses {
						if c.RestartCount != restarts {
							t.Errorf("container %s of pod %s has %d restarts, want %d", c.Name, obj.Name, c.RestartCount, restarts)
						}
					}
				}
				if held, _ := n.runtime.Containers(t.Context()); len(held) > 0 {
					t.Errorf("%d containers are left", len(held))
				}
			})
		})
	}
}
