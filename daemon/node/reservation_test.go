package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/daemon/requests"
)

// work is a pod of a random workload.
type work struct {
	*Pod
	arrives, lasts int64
	first          int64 // since when room is kept for it
}

// day is a random workload on a machine in virtual time, in seconds.
type day struct {
	*rapid.T
	n       *Node
	pods    map[types.UID]*work
	ends    map[types.UID]int64
	longest int64 // of all runs
}

const (
	ofDay    = 3000 // milli-CPUs
	patience = 50
)

// newDay draws pods that all fit, most of them small, in the order of their arrival.
func newDay(t *rapid.T, priorities int) (*day, []*work) {
	d := &day{T: t, n: New(6, requests.Resources{"cpu": ofDay}), pods: map[types.UID]*work{}, ends: map[types.UID]int64{}}
	d.n.StarvationAfter = patience * time.Second
	var all []*work
	at, gangs := int64(1), 0
	for i := range rapid.IntRange(5, 60).Draw(t, "pods") {
		at += rapid.Int64Range(0, 8).Draw(t, "later")
		one := &work{arrives: at, lasts: rapid.Int64Range(1, 40).Draw(t, "lasts")}
		one.Pod = want(types.UID(fmt.Sprintf("p%02d", i)), at, rapid.SampledFrom([]int64{500, 500, 500, 1000, 2000, 3000}).Draw(t, "cpu"))
		one.Priority = int32(rapid.IntRange(0, priorities-1).Draw(t, "priority"))
		one.Polite = true // those that are ended for others would wait anew
		if rapid.Bool().Draw(t, "deadline") {
			deadline := one.lasts + rapid.Int64Range(0, 10).Draw(t, "beyond")
			one.Within(&deadline)
		}
		all = append(all, one)
		if one.shape.Ask["cpu"] == 500 && rapid.IntRange(0, 5).Draw(t, "gang") == 0 {
			gangs++
			group := fmt.Sprintf("ns/g%d", gangs)
			d.n.SetGroup(group, Group{Gang: true, MinCount: 4})
			one.SetGroup(group)
			for m := range 3 {
				member := *one.Pod
				member.UID += types.UID(fmt.Sprint("-", m))
				all = append(all, &work{Pod: &member, arrives: at, lasts: one.lasts})
			}
		}
	}
	for _, w := range all {
		d.longest = max(d.longest, w.lasts, w.limit.Seconds())
		d.pods[w.UID] = w
	}
	return d, all
}

// pass lets the node decide at a time.
func (d *day) pass(now int64) (started []types.UID) {
	d.n.At(time.Unix(now, 0))
	for step, ok := d.n.Next(nil); ok; step, ok = d.n.Next(nil) {
		for _, uid := range step.Bind {
			started = append(started, uid)
			d.ends[uid] = now + d.pods[uid].lasts
			d.n.Bound(d.pods[uid].Pod, time.Unix(now, 0), false)
		}
	}
	return started
}

// live plays a day to its end, looking at the node only when something happens, as the daemon does. check is called after each pass.
func (d *day) live(all []*work, check func(now int64, started []types.UID)) {
	for now := int64(1); len(all)+d.n.Waiting()+d.n.Running() > 0; {
		for uid, end := range d.ends {
			if end <= now {
				delete(d.ends, uid)
				d.n.Gone(uid)
			}
		}
		for len(all) > 0 && all[0].arrives <= now {
			d.n.Wait(all[0].Pod, false)
			all = all[1:]
		}
		check(now, d.pass(now))
		next := int64(never)
		for _, end := range d.ends {
			next = min(next, end)
		}
		if len(all) > 0 {
			next = min(next, all[0].arrives)
		}
		if wake := d.n.Wake(); !wake.IsZero() {
			next = min(next, max(now+1, wake.Unix()))
		}
		if next == never && d.n.Waiting() > 0 {
			d.Fatalf("%d pods wait for ever", d.n.Waiting())
		}
		now = next
	}
}

// TestNobodyStarves: once room is kept for a pod, it starts before the longest run is over, whatever comes; and with one priority nobody
// waits longer than the limit and one run for each of those that were there before.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, all := newDay(t, 1)
		before := map[types.UID]int64{}
		for i, w := range all {
			for _, other := range all[:i] {
				if other.Group() == "" || other.Group() != w.Group() {
					before[w.UID]++
				}
			}
		}
		d.live(all, func(now int64, started []types.UID) {
			for _, uid := range started {
				w := d.pods[uid]
				if waited, most := now-w.arrives, patience+(before[uid]+1)*d.longest; waited > most {
					t.Fatalf("%s waited for %d s, longer than %d", uid, waited, most)
				}
			}
		})
	})
}

func TestRoomIsKeptForOneRunAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, all := newDay(t, 3)
		promised := int64(never)
		var last types.UID
		d.live(all, func(now int64, started []types.UID) {
			uid, since, by := d.n.Keeps()
			above := slices.ContainsFunc(started, func(s types.UID) bool { return uid != "" && d.pods[s].Priority > d.pods[uid].Priority })
			switch {
			case uid == "":
				for other, w := range d.n.waiting {
					if w.line.gang == nil && now >= int64(w.Created)+patience && w == w.line.queue[0] {
						t.Fatalf("at %d room is kept for nobody, and %s waits", now, other)
					}
				}
			case uid != last || above:
				d.pods[uid].first, promised = now, never
			case now-d.pods[uid].first > d.longest:
				t.Fatalf("room is kept for %s since %s, longer than anything runs", uid, since)
			}
			if uid == last && !by.IsZero() && !above {
				if by.Unix() > promised {
					t.Fatalf("at %d %s has room by %d, and by %d before", now, uid, by.Unix(), promised)
				}
			}
			if last = uid; uid != "" && !by.IsZero() {
				promised = by.Unix()
			}
		})
	})
}

// TestAStreamOfSmallOnesDoesNotStarveALargeOne never lets the small ones end.
func TestAStreamOfSmallOnesDoesNotStarveALargeOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &day{T: t, n: New(9, requests.Resources{"cpu": ofDay}), pods: map[types.UID]*work{}, ends: map[types.UID]int64{}}
		d.n.StarvationAfter = patience * time.Second
		large := &work{Pod: want("large", 5, ofDay), arrives: 5, lasts: 1}
		made := 0
		for now := int64(1); ; now++ {
			if now > 5+patience+40 {
				t.Fatal("the large one waits for longer than the limit and the longest run")
			}
			for uid, end := range d.ends {
				if end <= now {
					delete(d.ends, uid)
					d.n.Gone(uid)
				}
			}
			for d.n.Waiting() < 3 {
				made++
				w := &work{Pod: want(types.UID(fmt.Sprint(made)), now, 1000), arrives: now, lasts: rapid.Int64Range(1, 40).Draw(t, "lasts")}
				d.pods[w.UID] = w
				d.n.Wait(w.Pod, false)
			}
			if now == 5 {
				d.pods["large"] = large
				d.n.Wait(large.Pod, false)
			}
			if slices.Contains(d.pass(now), "large") {
				return
			}
		}
	})
}
