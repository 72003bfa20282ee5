package load

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/daemon/requests"
)

// TestWhatGoesLeavesNothing adds pods and takes them away again in another order: what is left is what the others take, and in the end nothing.
func TestWhatGoesLeavesNothing(t *testing.T) {
	type pod struct {
		One
		priority int32
		ending   bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var pods []pod
		l := NewLevels()
		recount := func(which func(pod) bool) (sum Sum) {
			for _, p := range pods {
				if which(p) {
					sum.Add(p.One, 1)
				}
			}
			return sum
		}
		same := func(a, b Sum) bool {
			return a.Pods == b.Pods && a.Continuing == b.Continuing && a.Amounts.String() == b.Amounts.String() && len(a.Ports) == len(b.Ports) &&
				len(a.Matches) == len(b.Matches) && len(a.Holds) == len(b.Holds)
		}
		ids := rapid.SliceOfNDistinct(rapid.IntRange(1, 5), 0, 3, rapid.ID[int])
		t.Repeat(map[string]func(*rapid.T){
			"a pod comes": func(t *rapid.T) {
				p := pod{One: One{
					Ask:     requests.Resources{corev1.ResourceCPU: rapid.Int64Range(1, 9).Draw(t, "cpu")},
					Ports:   []requests.Port{{Protocol: corev1.ProtocolTCP, Number: rapid.Int32Range(1, 3).Draw(t, "port")}},
					Matches: ids.Draw(t, "matches"), Holds: ids.Draw(t, "holds"), Continues: rapid.Bool().Draw(t, "continues"),
				}, priority: rapid.Int32Range(0, 2).Draw(t, "priority")}
				pods = append(pods, p)
				l.Add(p.priority, p.One, 1)
			},
			"a pod ends": func(t *rapid.T) {
				if len(pods) == 0 {
					return
				}
				p := &pods[rapid.IntRange(0, len(pods)-1).Draw(t, "which")]
				p.ending = !p.ending
				l.End(p.priority, p.One, p.ending)
			},
			"a pod goes": func(t *rapid.T) {
				if len(pods) == 0 {
					return
				}
				i := rapid.IntRange(0, len(pods)-1).Draw(t, "which")
				p := pods[i]
				pods = append(pods[:i:i], pods[i+1:]...)
				if p.ending {
					l.End(p.priority, p.One, false)
				}
				l.Add(p.priority, p.One, -1)
			},
			"": func(t *rapid.T) {
				all := recount(func(pod) bool { return true })
				if !same(l.All, all) {
					t.Fatalf("%+v, a recount gives %+v", l.All, all)
				}
				for at := range int32(4) {
					if got, want := l.From(at), recount(func(p pod) bool { return p.priority >= at }); !same(got, want) {
						t.Fatalf("from %d: %+v, a recount gives %+v", at, got, want)
					}
					ending := 0
					for _, p := range pods {
						if p.ending && p.priority < at {
							ending++
						}
					}
					if n, going := l.Below(at); n != all.Pods-l.From(at).Pods || going != ending {
						t.Fatalf("below %d are %d pods of which %d end, a recount gives %d", at, n, going, ending)
					}
				}
				for rule := range 6 {
					stay := 0
					for _, p := range pods {
						for _, id := range p.Matches {
							if id == rule && !p.ending {
								stay++
							}
						}
					}
					if got := l.All.Stay(rule); got != stay {
						t.Fatalf("rule %d counts %d that stay, a recount gives %d", rule, got, stay)
					}
				}
			},
		})
		for _, p := range pods {
			if p.ending {
				l.End(p.priority, p.One, false)
			}
			l.Add(p.priority, p.One, -1)
		}
		empty := Sum{Amounts: l.All.Amounts, Ports: l.All.Ports, Matches: l.All.Matches, leaving: l.All.leaving, Holds: l.All.Holds}
		if len(l.By)+len(empty.Amounts)+len(empty.Ports)+len(empty.Matches)+len(empty.leaving)+len(empty.Holds) > 0 || !reflect.DeepEqual(l.All, empty) {
			t.Fatalf("what is left: %+v", l)
		}
	})
}
