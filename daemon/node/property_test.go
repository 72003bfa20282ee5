package node

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/requests"
)

// life is a random life of a node.
type life struct {
	*rapid.T
	n    *Node
	made int
}

func (l *life) newPod() *Pod {
	l.made++
	p := &Pod{
		UID:      types.UID(fmt.Sprintf("p%03d", l.made)),
		Created:  uint32(rapid.IntRange(0, 5).Draw(l.T, "created")),
		Priority: int32(rapid.IntRange(0, 3).Draw(l.T, "priority")),
		Polite:   rapid.IntRange(0, 9).Draw(l.T, "polite") == 0,
	}
	p.SetAccount(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(l.T, "account"))
	var ask requests.Resources
	if cpu := rapid.IntRange(0, 4).Draw(l.T, "cpu"); cpu > 0 {
		ask = requests.Resources{"cpu": int64(cpu) * 500}
	}
	var ports []requests.Port
	if rapid.IntRange(0, 7).Draw(l.T, "port") == 0 {
		ports = []requests.Port{{Protocol: corev1.ProtocolTCP, Number: 80, IP: rapid.SampledFrom([]string{"", "192.0.2.1", "192.0.2.2"}).Draw(l.T, "address")}}
	}
	var t fit.Terms
	if rapid.IntRange(0, 7).Draw(l.T, "tolerates") == 0 {
		t.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	p.SetGroup(rapid.SampledFrom([]string{"", "", "ns/g", "ns/h"}).Draw(l.T, "group"))
	if p.Group() != "" { // as a Job makes them
		p.Priority, p.Polite = 2, false
	}
	p.shape = newShape(ask, ports, t, p.Polite)
	return p
}

func (l *life) pick(from []types.UID) (types.UID, bool) {
	if len(from) == 0 {
		return "", false
	}
	slices.Sort(from)
	return rapid.SampledFrom(from).Draw(l.T, "which"), true
}

func keys[V any](m map[types.UID]V) (uids []types.UID) {
	for uid := range m {
		uids = append(uids, uid)
	}
	return uids
}

// decide takes all decisions and checks each.
func (l *life) decide() {
	n := l.n
	for steps := 0; ; steps++ {
		if steps > 1000 {
			l.Fatal("the decisions do not end")
		}
		first := l.first()
		gangs := map[*group]int{}
		for _, g := range n.groups {
			gangs[g] = g.bound
		}
		waiters := maps.Clone(n.waiting)
		step, ok := n.Next(nil)
		if !ok {
			break
		}
		l.check()
		bound := map[*group]int{}
		for _, uid := range step.Bind {
			b := n.bound[uid]
			if b == nil {
				l.Fatalf("%s was to be bound and is not", uid)
			}
			if g := n.groupOf(b.Pod); g != nil && g.known && g.gang {
				bound[g]++
			} else if first != nil && first.Before(waiters[uid]) {
				l.Fatalf("%s goes before %s", uid, first.UID)
			}
		}
		for g, now := range bound {
			if gangs[g]+now < g.need() {
				l.Fatalf("%d of a gang run, and %d more now, while it needs %d", gangs[g], now, g.need())
			}
		}
		for _, uid := range step.Victims {
			for _, by := range step.Nominate {
				if n.bound[uid].Priority >= n.waiting[by].Priority {
					l.Fatalf("%s makes way for %s, which has no higher priority", uid, by)
				}
			}
		}
	}
	for uid, w := range n.waiting {
		if n.Why(uid) == "" {
			l.Fatalf("%s waits for nothing", uid)
		}
		if r, _ := n.Room(uid); r.Clear() { // what people are told is what was decided
			l.Fatalf("%s waits since %s, and has room: %+v", uid, n.Why(uid), r)
		}
		if w.line.gang != nil || w.Polite || n.unfit(w.shape) != "" {
			continue
		}
		alone := []*waiter{w}
		lower, ending := n.used.Below(w.Priority)
		if lower == 0 || w.nominated && ending > 0 {
			continue
		}
		helps := false
		n.without(alone, func() { _, _, helps = n.victims(alone, w) })
		if helps {
			l.Fatalf("%s waits, while others could make way", uid)
		}
	}
}

// first returns the pod that comes first among those that belong to no gang and for which there is room.
func (l *life) first() (first *waiter) {
	n := l.n
	for _, w := range n.waiting {
		if w.line.gang != nil || n.unfit(w.shape) != "" || first != nil && first.Before(w) {
			continue
		}
		n.without([]*waiter{w}, func() {
			if n.fits(n.taken(w), w.shape) {
				first = w
			}
		})
	}
	return first
}

// check compares the sums with a recount, and with what the node has.
func (l *life) check() {
	n := l.n
	used, reserved := load.NewLevels(), load.NewLevels()
	bound := map[string]int{}
	for _, b := range n.bound {
		used.Add(b.Priority, b.shape.One, 1)
		if b.ending {
			used.End(b.Priority, b.shape.One, true)
		}
		bound[b.Group()]++
	}
	for _, w := range n.waiting {
		if w.nominated {
			reserved.Add(w.Priority, w.shape.One, 1)
		}
	}
	for what, pair := range map[string][2]load.Levels{"used": {n.used, used}, "reserved": {n.reserved, reserved}} {
		if got, want := sums(pair[0]), sums(pair[1]); got != want {
			l.Fatalf("%s: %s, a recount gives %s", what, got, want)
		}
	}
	for _, g := range n.groups {
		if g.bound != bound[g.key] {
			l.Fatalf("%d pods of %s run, a recount gives %d", g.bound, g.key, bound[g.key])
		}
	}
	if used.All.Pods > n.MaxPods || used.All.Amounts["cpu"] > n.Allocatable["cpu"] {
		l.Fatalf("the node has more than it has room for: %s", sums(used))
	}
	for at, times := range used.All.Ports {
		if at.IP != "*" && (times > 1 || at.IP != "" && used.All.Ports[requests.Port{Protocol: at.Protocol, Number: at.Number}] > 0) {
			l.Fatalf("port %v is used %d times", at, times)
		}
	}
	lines := 0
	for w := range n.blocked {
		lines += len(w.queue)
	}
	for _, a := range n.ready {
		for _, w := range a.lines {
			lines += len(w.queue)
		}
	}
	if lines != len(n.waiting) {
		l.Fatalf("%d pods are in lines, %d wait", lines, len(n.waiting))
	}
}

func sums(l load.Levels) string {
	var out []string
	for priority, t := range l.By {
		out = append(out, fmt.Sprintf("%d: %d pods, %d ending, %s, %v", priority, t.Pods, t.Ending, requests.Resources{"cpu": t.Amounts["cpu"]}, t.Ports))
	}
	slices.Sort(out)
	return fmt.Sprint(l.All.Pods, l.All.Amounts["cpu"], out)
}

func TestLivesOfANode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{T: t, n: New(rapid.IntRange(1, 6).Draw(t, "maxPods"), requests.Resources{"cpu": 3000})}
		n := l.n
		if rapid.Bool().Draw(t, "fair") {
			n.ShareFairly(time.Minute)
		}
		clock := int64(1)
		t.Repeat(map[string]func(*rapid.T){
			"a pod comes": func(t *rapid.T) {
				l.T = t
				n.Wait(l.newPod(), false)
			},
			"time passes": func(t *rapid.T) {
				clock += rapid.Int64Range(0, 100).Draw(t, "seconds")
				n.At(time.Unix(clock, 0))
			},
			"a pod goes": func(t *rapid.T) {
				l.T = t
				if uid, ok := l.pick(append(keys(n.bound), keys(n.waiting)...)); ok {
					n.Gone(uid)
				}
			},
			"a pod begins to end": func(t *rapid.T) {
				l.T = t
				if uid, ok := l.pick(keys(n.bound)); ok {
					n.Bound(n.bound[uid].Pod, n.bound[uid].startedAt(), true)
				}
			},
			"a pod starts": func(t *rapid.T) {
				l.T = t
				if uid, ok := l.pick(keys(n.bound)); ok {
					b := n.bound[uid]
					n.Bound(b.Pod, time.Unix(int64(rapid.IntRange(0, 9).Draw(t, "started")), 0), b.ending)
				}
			},
			"a group is made or changed": func(t *rapid.T) {
				n.SetGroup(rapid.SampledFrom([]string{"ns/g", "ns/h"}).Draw(t, "group"), Group{
					Gang: rapid.IntRange(0, 3).Draw(t, "gang") > 0, MinCount: rapid.IntRange(1, 4).Draw(t, "min"), All: rapid.Bool().Draw(t, "all"),
				})
			},
			"a group goes": func(t *rapid.T) {
				n.DropGroup(rapid.SampledFrom([]string{"ns/g", "ns/h"}).Draw(t, "group"))
			},
			"a gang gets smaller": func(t *rapid.T) {
				n.Resize("ns/g", rapid.IntRange(0, 3).Draw(t, "size"))
			},
			"the node is cordoned, or not": func(t *rapid.T) {
				node := &corev1.Node{}
				node.Spec.Unschedulable = rapid.IntRange(0, 2).Draw(t, "cordon") == 0
				n.Describe(node)
			},
			"": func(t *rapid.T) {
				l.T = t
				l.check()
				l.decide()
				l.check()
				n.Changed()
			},
		})
	})
}
