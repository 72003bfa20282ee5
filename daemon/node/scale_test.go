package node

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
)

// TestThoseWhoWaitCostNothing counts what a step allocates while many pods wait: it is the same as while few do.
func TestThoseWhoWaitCostNothing(t *testing.T) {
	for rule, group := range map[string]string{"one by one": "", "as a gang": "ns/g"} {
		t.Run(rule, func(t *testing.T) {
			cost := map[int]float64{}
			for _, waiting := range []int{10, 10_000} {
				n := New(100_000, requests.Resources{"cpu": 3000})
				n.SetGroup("ns/g", Group{Gang: true, MinCount: waiting})
				n.run(want("blocker", 0, 2000), 0)
				for i := range waiting {
					p := want(types.UID(fmt.Sprint(i)), int64(i), 1500)
					p.SetGroup(group)
					n.Wait(p, false)
				}
				decide(n)
				n.Changed()
				other := want("other", 0, 500)
				cost[waiting] = testing.AllocsPerRun(100, func() {
					n.Wait(other, false)
					for _, ok := n.Next(nil); ok; _, ok = n.Next(nil) {
					}
					n.Why("7")
					n.Gone("other")
					n.Changed()
				})
			}
			if cost[10_000] > cost[10]+4 { // larger numbers in the message
				t.Errorf("%v allocations while 10 wait, %v while 10,000 do", cost[10], cost[10_000])
			}
		})
	}
}

// BenchmarkPassWhile100000Wait is what a pass costs in which a pod ends and the next one starts, while very many wait: of one shape, and of a
// hundred; ordered by age, or by what three accounts have used.
func BenchmarkPassWhile100000Wait(b *testing.B) {
	const waiting = 100_000
	for _, c := range []struct {
		shapes int
		fair   bool
	}{{1, false}, {100, false}, {1, true}, {100, true}} {
		shapes := c.shapes
		b.Run(fmt.Sprintf("shapes=%d/fair=%v", shapes, c.fair), func(b *testing.B) {
			n := New(1000, requests.Resources{"cpu": 3000})
			n.StarvationAfter = 10 * time.Minute
			if c.fair {
				n.ShareFairly(time.Hour)
			}
			clock := time.Unix(100, 0)
			running := want("blocker", 0, 3000)
			n.run(running, 1)
			for i := range waiting + b.N {
				n.Wait(want(types.UID(fmt.Sprint(i)), int64(i+1), 2000+int64(i%shapes)).with(by(fmt.Sprint(i%3))), false)
			}
			decide(n)
			n.Changed()
			uid := running.UID
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				n.Gone(uid)
				clock = clock.Add(time.Millisecond)
				n.At(clock)
				for step, ok := n.Next(nil); ok; step, ok = n.Next(nil) {
					uid = step.Bind[0]
				}
				n.Changed()
				n.TakeAccounts()
			}
		})
	}
}
