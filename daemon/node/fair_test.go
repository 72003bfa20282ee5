package node

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/requests"
)

func by(account string) func(*Pod) { return func(p *Pod) { p.SetAccount(account) } }

// fairNode is a node on which use counts half after an hour.
func fairNode(cpu int64) *Node {
	n := New(100, requests.Resources{"cpu": cpu})
	n.ShareFairly(time.Hour)
	n.At(time.Unix(1000, 0))
	return n
}

// TestBobComesSecond has twelve pods of alice wait when bob comes with one.
func TestBobComesSecond(t *testing.T) {
	for name, c := range map[string]struct {
		fair bool
		want string
	}{"fair": {true, "a0 bob a1 a2"}, "by age": {false, "a0 a1 a2 a3"}} {
		t.Run(name, func(t *testing.T) {
			n := fairNode(1000)
			if !c.fair {
				n = New(100, n.Allocatable)
			}
			for i := range 12 {
				n.Wait(want(types.UID(fmt.Sprint("a", i)), 1, 1000).with(by("alice")), false)
			}
			n.Wait(want("bob", 2, 1000).with(by("bob")), false)
			var order []string
			for i := range 4 {
				if i > 0 {
					n.Gone(types.UID(order[i-1]))
				}
				n.At(time.UnixMilli(int64(1_000_000 + 100*i)))
				step, ok := n.Next(nil)
				if !ok || len(step.Bind) != 1 {
					t.Fatalf("%+v", step)
				}
				order = append(order, string(step.Bind[0]))
				decide(n)
			}
			if got := strings.Join(order, " "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestThoseWhoStartAtOnceAreOfDifferentAccounts: nobody has used anything yet, and there is room for four.
func TestThoseWhoStartAtOnceAreOfDifferentAccounts(t *testing.T) {
	n := fairNode(4000)
	for i := range 9 {
		n.Wait(want(types.UID(fmt.Sprint("a", i)), 1, 1000).with(by("alice")), false)
	}
	for i := range 9 {
		n.Wait(want(types.UID(fmt.Sprint("b", i)), 2, 1000).with(by("bob")), false)
	}
	n.SetShare("bob", 3)
	if got := decide(n); got != "+a0 +b0 +b1 +b2" {
		t.Error(got)
	}
}

func TestPriorityAndThoseThatArePutAheadComeBeforeAFairShare(t *testing.T) {
	n := fairNode(1000)
	n.SetAccount(fairness.Account{Name: "alice", Used: 1000, At: 1_000_000})
	n.Wait(want("b", 1, 1000).with(by("bob")), false)
	n.Wait(want("a", 2, 1000).with(by("alice")).with(func(p *Pod) { p.Priority, p.Polite = 1, true }), false)
	n.Wait(want("c", 3, 1000).with(by("alice")).with(func(p *Pod) { p.Ahead = 5 }), false)
	got := ""
	for n.Waiting() > 0 {
		step, _ := n.Next(nil)
		got += string(step.Bind[0])
		n.Gone(step.Bind[0])
	}
	if got != "acb" {
		t.Error(got)
	}
}

func TestUseDecays(t *testing.T) {
	n := fairNode(4000)
	n.run(want("a", 1, 2000).with(by("alice")), 1)
	n.At(time.Unix(1000, 0))
	n.At(time.Unix(1000+100, 0))
	if a := n.Accounts(time.Unix(n.now, 0))[0]; math.Abs(a.Used-50) > 1 || a.Running != 0.5 || a.Share != 1 {
		t.Errorf("after 100 s of half the machine: %+v", a)
	}
	n.Gone("a")
	n.At(time.Unix(1000+100, 0))
	used := n.Accounts(time.Unix(n.now, 0))[0].Used
	n.At(time.Unix(1000+100+3600, 0))
	if a := n.Accounts(time.Unix(n.now, 0))[0]; math.Abs(a.Used-used/2) > 1e-6 || a.Running != 0 {
		t.Errorf("after an hour without anything: %+v, of %v before", a, used)
	}
	n.TakeAccounts()
	n.At(time.Unix(1000+40*3600, 0))
	n.Decayed()
	if changed, gone := n.TakeAccounts(); len(changed) > 0 || len(gone) != 1 || len(n.accounts) > 0 {
		t.Errorf("what nobody has used for long is not forgotten: %v %v", changed, gone)
	}
}

// TestSharesConverge has people who always have something that waits: of what the machine does, each gets a part by the weight.
func TestSharesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const cpus, hours = 4, 12
		n := New(100, requests.Resources{"cpu": cpus * 1000})
		n.ShareFairly(time.Hour)
		shares := map[string]float64{}
		total := 0.0
		for i := range rapid.IntRange(2, 4).Draw(t, "people") {
			name := fmt.Sprint("p", i)
			shares[name] = float64(rapid.IntRange(1, 4).Draw(t, "share"))
			n.SetShare(name, shares[name])
			total += shares[name]
		}
		lasts := map[string]int64{} // one has short pods, another one long ones
		for name := range shares {
			lasts[name] = 10 * rapid.Int64Range(1, 20).Draw(t, "lasts")
		}
		made, ends, of, got := 0, map[types.UID]int64{}, map[types.UID]string{}, map[string]float64{}
		waiting := map[string]int{}
		for now := int64(1); now < hours*3600; now += 10 {
			for uid, end := range ends {
				if end <= now {
					delete(ends, uid)
					n.Gone(uid)
				}
			}
			n.At(time.Unix(now, 0))
			for name := range shares {
				for ; waiting[name] < cpus; waiting[name]++ {
					made++
					uid := types.UID(fmt.Sprint(made))
					of[uid] = name
					n.Wait(want(uid, now, 1000).with(by(name)), false)
				}
			}
			for step, ok := n.Next(nil); ok; step, ok = n.Next(nil) {
				for _, uid := range step.Bind {
					name := of[uid]
					ends[uid] = now + lasts[name]
					waiting[name]--
					if now > hours*1800 {
						got[name] += float64(lasts[name])
					}
				}
			}
		}
		all := 0.0
		for _, used := range got {
			all += used
		}
		for name, used := range got {
			if part, due := used/all, shares[name]/total; math.Abs(part-due) > 0.05 {
				t.Errorf("%s has %.3f of the machine, and is due %.3f: %v of %v", name, part, due, got, shares)
			}
		}
	})
}

// TestUseOutlivesTheDaemon makes a node anew of what is stored, at some times: it knows the same as one that goes on.
func TestUseOutlivesTheDaemon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		always, again := fairNode(4000), fairNode(4000)
		stored := map[string]fairness.Account{}
		running := map[types.UID]*Pod{}
		now := int64(1000)
		take := func() {
			changed, gone := again.TakeAccounts()
			for _, a := range changed {
				stored[a.Name] = a
			}
			for _, name := range gone {
				delete(stored, name)
			}
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.Int64Range(0, 4000).Draw(t, "later")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				p := want(types.UID(fmt.Sprint(i)), now, rapid.Int64Range(1, 500).Draw(t, "cpu")).with(by(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "who")))
				q := *p
				running[p.UID] = p
				always.run(p, now)
				again.run(&q, now)
			case 1:
				for uid := range running {
					always.Gone(uid)
					again.Gone(uid)
					delete(running, uid)
					break
				}
			case 2:
				take()
				again = New(100, always.Allocatable)
				again.ShareFairly(time.Hour)
				for _, p := range running {
					q := *p
					again.run(&q, now)
				}
				for _, a := range stored {
					again.SetAccount(a)
				}
				for uid := range running {
					if rapid.Bool().Draw(t, "has ended in between") {
						always.Gone(uid)
						again.Gone(uid)
						delete(running, uid)
					}
					break
				}
			}
			always.At(time.Unix(now, 0))
			again.At(time.Unix(now, 0))
			take()
		}
		always.At(time.Unix(now+1, 0))
		again.At(time.Unix(now+1, 0))
		used := map[string]float64{}
		for _, a := range again.Accounts(time.Unix(now+1, 0)) {
			used[a.Name] = a.Used
		}
		for _, a := range always.Accounts(time.Unix(now+1, 0)) {
			if math.Abs(a.Used-used[a.Name]) > 0.01+a.Used/1000 {
				t.Fatalf("%s has used %v, and after restarts %v", a.Name, a.Used, used[a.Name])
			}
		}
	})
}

// TestWhoComesFirstIsShown: to somebody who waits, of those who wait with the same priority.
func TestWhoComesFirstIsShown(t *testing.T) {
	n := fairNode(1000)
	n.Bound(want("running", 1, 1000).with(by("alice")), time.Unix(1000, 0), false)
	n.At(time.Unix(2000, 0))
	n.Wait(want("a0", 1, 1000).with(by("alice")), false)
	n.Wait(want("a1", 2, 1000).with(by("alice")), false)
	n.Wait(want("b0", 3, 1000).with(by("bob")), false)
	above := want("c0", 4, 1000).with(by("carol"))
	above.Priority = 7
	n.Wait(above, false)
	n.SetShare("bob", 2)
	for uid, names := range map[types.UID][2]string{"a0": {"alice", "bob"}, "b0": {"bob", "bob"}, "c0": {"carol", "carol"}} {
		room, ok := n.Room(uid)
		if !ok || room.Fair == nil || room.Fair.Own.Name != names[0] || room.Fair.First.Name != names[1] {
			t.Errorf("%s: %+v", uid, room.Fair)
		}
	}
	waiting := map[string]int{}
	for _, a := range n.Accounts(time.Unix(2000, 0)) {
		waiting[a.Name] = a.Waiting
	}
	if want := map[string]int{"alice": 2, "bob": 1, "carol": 1}; !maps.Equal(waiting, want) {
		t.Errorf("%v, want %v", waiting, want)
	}
	plain := New(100, n.Allocatable)
	plain.Wait(want("a", 1, 1000), false)
	if room, _ := plain.Room("a"); room.Fair != nil || plain.Accounts(time.Unix(0, 0)) != nil {
		t.Errorf("without fair shares: %+v", room.Fair)
	}
}
