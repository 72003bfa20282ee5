package node

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestThoseWhoWaitCostNothing counts what a step allocates while many pods wait: it is the same as while few do.
func TestThoseWhoWaitCostNothing(t *testing.T) {
	for rule, group := range map[string]string{"one by one": "", "as a gang": "ns/g"} {
		t.Run(rule, func(t *testing.T) {
			cost := map[int]float64{}
			for _, waiting := range []int{10, 10_000} {
				n := New(100_000, Resources{"cpu": 3000})
				n.SetGroup("ns/g", Group{Gang: true, MinCount: waiting})
				n.run(want("blocker", 0, 2000), 0)
				for i := range waiting {
					p := want(types.UID(fmt.Sprint(i)), int64(i), 1500)
					p.Group = group
					n.Wait(p, false)
				}
				decide(n)
				n.Changed()
				other := want("other", 0, 500)
				cost[waiting] = testing.AllocsPerRun(100, func() {
					n.Wait(other, false)
					for _, ok := n.Next(); ok; _, ok = n.Next() {
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
