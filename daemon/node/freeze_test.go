package node

import (
	"maps"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/daemon/fairness"

	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/requests"
)

func asking(uid string, priority int32, cpu, memory int64) *Pod {
	return &Pod{
		UID: types.UID(uid), Priority: priority,
		shape: newShape(requests.Resources{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}, nil, fit.Terms{}, false),
	}
}

func TestAFrozenPodGivesItsCPUBack(t *testing.T) {
	n := New(10, requests.Resources{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 100})
	n.Bound(asking("a", 0, 1000, 60), time.Time{}, false)
	n.Wait(asking("b", 0, 1000, 30), false)
	n.Wait(asking("large", 0, 500, 50), false)
	if step, ok := n.Next(nil); ok && len(step.Bind) > 0 {
		t.Fatalf("%+v", step)
	}
	n.Freeze("a", Pause{Frozen: true})
	n.Freeze("a", Pause{Frozen: true})
	step, ok := n.Next(nil)
	if !ok || len(step.Bind) != 1 || step.Bind[0] != "b" {
		t.Fatalf("%+v", step)
	}
	n.Freeze("a", Pause{})
	if got := n.used.All.Amounts; !maps.Equal(got, requests.Resources{corev1.ResourceCPU: 2000, corev1.ResourceMemory: 90}) {
		t.Errorf("used: %v", got)
	}
	n.Freeze("a", Pause{Frozen: true})
	n.Gone("a")
	n.Gone("b")
	if got := n.used.All.Amounts; len(got) > 0 || len(n.used.By) > 0 {
		t.Errorf("what is left: %v %v", got, n.used.By)
	}
}

// A pod that is frozen is no victim for want of CPU, which it does not use, but may be one for want of memory.
func TestFrozenPodsAreNotPreemptedForCPU(t *testing.T) {
	for memory, want := range map[int64]string{10: "", 90: "frozen"} {
		n := New(10, requests.Resources{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 100})
		n.Bound(asking("frozen", 0, 1000, 60), time.Time{}, false)
		n.Freeze("frozen", Pause{Frozen: true})
		n.Bound(asking("runs", 1, 1000, 5), time.Time{}, false)
		n.Wait(asking("urgent", 2, 1000, memory), false)
		step, ok := n.Next(nil)
		victims := map[types.UID]bool{}
		for _, v := range step.Victims {
			victims[v] = true
		}
		if !ok || !victims["runs"] || victims["frozen"] != (want != "") {
			t.Errorf("memory %d: %+v", memory, step)
		}
	}
}

// The deadline of a pod that was paused counts again for those that wait as soon as it goes on: it comes later by as long as it stood
// still, be it its own or that of its Job.
func TestADeadlineCountsAgainAfterAPause(t *testing.T) {
	n := New(10, requests.Resources{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 100})
	n.StarvationAfter = time.Second
	n.At(time.Unix(1000, 0))
	runs, limit := asking("runs", 1, 1000, 60), int64(99)
	runs.Within(&limit)
	n.Bound(runs, time.Unix(1000, 0), false)
	ends := int64(1000) + runs.limit.Seconds()
	n.Wait(asking("waits", 0, 1000, 60), false)
	at := int64(1010)
	by := func(want int64) {
		t.Helper()
		at++
		n.At(time.Unix(at, 0))
		decide(n)
		first, _, by := n.Keeps()
		if got := by.Unix(); want == 0 && !by.IsZero() || want != 0 && (first != "waits" || got != want) {
			t.Errorf("room is kept for %q, which is there by %d, want %d", first, got, want)
		}
	}
	by(ends)
	n.Freeze("runs", Pause{Stands: true}) // its Job is paused, and it is about to be frozen
	by(0)
	n.Freeze("runs", Pause{Stands: true, Frozen: true})
	by(0)
	n.Freeze("runs", Pause{For: 50 * time.Second, Later: 51*time.Second + time.Millisecond})
	by(ends + 52)
	n.Freeze("runs", Pause{Stands: true, Frozen: true, For: 50 * time.Second, Later: 52 * time.Second})
	by(0)
	n.Freeze("runs", Pause{For: 100 * time.Second, Later: 100 * time.Second})
	by(ends + 100)
}

// Room is kept beside a pod that is frozen for one that wants its CPU, which nobody has while it is.
func TestRoomIsKeptOfTheCPUOfAFrozenPod(t *testing.T) {
	for memory, want := range map[int64]types.UID{40: "waits", 41: ""} {
		n := New(10, requests.Resources{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 100})
		n.StarvationAfter = time.Second
		n.At(time.Unix(1000, 0))
		n.Bound(asking("frozen", 0, 1000, 60), time.Unix(1000, 0), false)
		n.Freeze("frozen", Pause{Frozen: true, Stands: true})
		runs, limit := asking("runs", 0, 1000, 5), int64(99)
		runs.Within(&limit)
		n.Bound(runs, time.Unix(1000, 0), false)
		n.Wait(asking("waits", 0, 1000, memory), false)
		n.At(time.Unix(1010, 0))
		decide(n)
		if first, _, _ := n.Keeps(); first != want {
			t.Errorf("memory %d: room is kept for %q", memory, first)
		}
	}
}

// A pod that is frozen uses its memory and no CPU of the machine, for the order by what everybody has used.
func TestAFrozenPodIsChargedForWhatItKeeps(t *testing.T) {
	start := func(known bool) *Node {
		n := New(100, requests.Resources{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 100})
		n.ShareFairly(1000 * time.Hour)
		if n.SetAccount(fairness.Account{Name: "alice", At: 1_000_000}); known {
			n.At(time.Unix(1000, 0))
		}
		p := asking("a", 0, 1000, 25)
		p.SetAccount("alice")
		n.Bound(p, time.Unix(900, 0), false)
		return n
	}
	is := func(t *testing.T, n *Node, at int64, used, running float64) {
		t.Helper()
		n.At(time.Unix(at, 0))
		if a := n.Accounts(time.Unix(at, 0))[0]; math.Abs(a.Used-used) > 0.1 || math.Abs(a.Running-running) > 1e-6 {
			t.Errorf("%+v, want %v used, and %v of the machine", a, used, running)
		}
	}
	n := start(true)
	n.At(time.Unix(1000, 0))
	is(t, n, 1100, 100, 1)
	n.Freeze("a", Pause{Frozen: true})
	is(t, n, 1100, 100, 0.25)
	is(t, n, 1200, 125, 0.25)
	n.Freeze("a", Pause{For: 100 * time.Second})
	is(t, n, 1200, 125, 1)
	is(t, n, 1300, 225, 1)
	n.Freeze("a", Pause{Frozen: true})
	is(t, n, 1300, 225, 0.25)
	n.Gone("a")
	is(t, n, 1300, 225, 0)
	is(t, n, 1400, 225, 0)

	n = start(true)
	n.At(time.Unix(1000, 0))
	n.Displaced("a", time.Unix(1000, 0), false)
	is(t, n, 1100, 100, 1) // it is about to be frozen
	n.Freeze("a", Pause{Frozen: true, Stands: true})
	is(t, n, 1100, 100, 0.25)
	is(t, n, 1200, 125, 0.25)
	if step, ok := n.Next(nil); !ok || len(step.Continue) != 1 {
		t.Fatalf("it does not go on: %+v", step)
	}
	is(t, n, 1200, 125, 1)
	is(t, n, 1300, 225, 1)

	n = start(false) // it is found frozen when the daemon starts, and has been since its account was written
	n.Freeze("a", Pause{Frozen: true})
	is(t, n, 1100, 25, 0.25)
}

// Whatever happens, what is used is the sum of what the pods on the node keep.
func TestFreezingAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := New(100, requests.Resources{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 1000})
		n.ShareFairly(time.Hour)
		now := int64(1000)
		type state struct {
			cpu, memory int64
			frozen      bool
		}
		pods := map[types.UID]*state{}
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		amount := rapid.Int64Range(1, 50)
		t.Repeat(map[string]func(*rapid.T){
			"bind": func(t *rapid.T) {
				name := names.Draw(t, "name")
				if pods[types.UID(name)] != nil {
					t.Skip()
				}
				s := &state{cpu: amount.Draw(t, "cpu"), memory: amount.Draw(t, "memory")}
				pods[types.UID(name)] = s
				n.Bound(asking(name, int32(len(name)), s.cpu, s.memory), time.Time{}, rapid.Bool().Draw(t, "ends"))
			},
			"freeze": func(t *rapid.T) {
				uid, frozen := types.UID(names.Draw(t, "name")), rapid.Bool().Draw(t, "frozen")
				n.Freeze(uid, Pause{Frozen: frozen})
				if s := pods[uid]; s != nil {
					s.frozen = frozen
				}
			},
			"resize": func(t *rapid.T) {
				name := names.Draw(t, "name")
				s := pods[types.UID(name)]
				if s == nil {
					t.Skip()
				}
				s.cpu = amount.Draw(t, "cpu")
				if reason, message := n.Allocate(types.UID(name), asking(name, int32(len(name)), s.cpu, s.memory), false); reason != "" {
					t.Fatal(reason, message)
				}
			},
			"end": func(t *rapid.T) {
				uid := types.UID(names.Draw(t, "name"))
				n.Gone(uid)
				delete(pods, uid)
			},
			"": func(t *rapid.T) {
				want := requests.Resources{}
				for _, s := range pods {
					if want[corev1.ResourceMemory] += s.memory; !s.frozen {
						want[corev1.ResourceCPU] += s.cpu
					}
				}
				if !maps.Equal(n.used.All.Amounts, want) {
					t.Fatalf("used %v, want %v", n.used.All.Amounts, want)
				}
				now++
				n.At(time.Unix(now, 0))
				parts, rate := 0.0, 0.0
				for _, s := range pods {
					part := max(0.01, float64(s.memory)/1000)
					if !s.frozen {
						part = max(part, float64(s.cpu)/1000)
					}
					parts += part
				}
				if a := n.accounts[""]; a != nil {
					rate = n.shares.Show(a.Use).Running
				}
				if math.Abs(parts-rate) > 1e-6 {
					t.Fatalf("%v of the machine is charged, and %v used", rate, parts)
				}
			},
		})
	})
}
