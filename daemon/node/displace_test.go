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
	"github.com/jobd/jobd/daemon/requests"
)

// shift is a pod of a random workload in which those of a higher priority displace others, as it would be stored.
type shift struct {
	*Pod
	arrives   int64
	left      int64 // how long it still has to run
	displaced int64 // since when
	frozen    bool
	nominated bool
	ending    int64 // when it is gone that was preempted; 0: it was not
	changes   int64 // when its containers are frozen, or go on; 0: nothing is being done
	attempts  int
	pauses    map[types.UID]int // by whom it was paused
}

// pausingWorld is a machine in virtual time on which pods run, are frozen, go on and are ended.
type pausingWorld struct {
	*rapid.T
	n       *Node
	all     map[types.UID]*shift
	bound   map[types.UID]*shift
	waiting map[types.UID]*shift
	now     int64
	memory  int64 // of the machine
	most    int   // pods
}

const ofMachine = 3000 // milli-CPUs

func newPausingWorld(t *rapid.T) *pausingWorld {
	w := &pausingWorld{T: t, all: map[types.UID]*shift{}, bound: map[types.UID]*shift{}, waiting: map[types.UID]*shift{}, now: 1}
	w.memory, w.most = rapid.SampledFrom([]int64{100, 250}).Draw(t, "memory"), 6
	if rapid.IntRange(0, 2).Draw(t, "plenty") == 0 { // of all but CPU
		w.memory, w.most = 100_000, 1000
	}
	w.restart()
	return w
}

// restart makes the node anew of what is stored.
func (w *pausingWorld) restart() {
	w.n = New(w.most, requests.Resources{corev1.ResourceCPU: ofMachine, corev1.ResourceMemory: w.memory})
	w.n.StarvationAfter = 50 * time.Second
	for _, g := range []string{"ns/g0", "ns/g1"} {
		w.n.SetGroup(g, Group{Gang: true, MinCount: 1, All: true})
	}
	for _, uid := range slices.Sorted(maps.Keys(w.bound)) {
		w.show(w.bound[uid])
	}
	for _, uid := range slices.Sorted(maps.Keys(w.waiting)) {
		w.n.Wait(w.waiting[uid].Pod, w.waiting[uid].nominated)
	}
}

// show tells the node of a pod as it is stored.
func (w *pausingWorld) show(s *shift) {
	w.n.Bound(s.Pod, time.Unix(1, 0), s.ending != 0)
	since := time.Time{}
	if s.displaced != 0 {
		since = time.Unix(s.displaced, 0)
	}
	w.n.Displaced(s.UID, since, false)
	w.n.Freeze(s.UID, Pause{Frozen: s.frozen && s.displaced != 0, Stands: s.displaced != 0})
}

func (w *pausingWorld) arrive(i int) *shift {
	t := w.T
	s := &shift{arrives: w.now, left: rapid.Int64Range(1, 40).Draw(t, "lasts"), pauses: map[types.UID]int{}}
	cpu := rapid.SampledFrom([]int64{0, 500, 1000, 2000, 3000}).Draw(t, "cpu")
	s.Pod = asking(fmt.Sprintf("p%02d", i), rapid.Int32Range(0, 2).Draw(t, "priority"), cpu,
		rapid.SampledFrom([]int64{0, 10, 60, 100}).Draw(t, "needs"))
	s.Created = uint32(w.now)
	maps.DeleteFunc(s.shape.Ask, func(_ corev1.ResourceName, amount int64) bool { return amount == 0 })
	s.shape = newShape(s.shape.Ask, nil, fit.Terms{}, false)
	s.Pausable = rapid.IntRange(0, 3).Draw(t, "pausable") > 0
	if s.Priority == 0 && rapid.IntRange(0, 3).Draw(t, "group") == 0 {
		s.SetGroup(rapid.SampledFrom([]string{"ns/g0", "ns/g1"}).Draw(t, "of"))
	}
	w.all[s.UID], w.waiting[s.UID] = s, s
	w.n.Wait(s.Pod, false)
	return s
}

// pass lets the node decide, and stores that.
func (w *pausingWorld) pass() {
	w.n.At(time.Unix(w.now, 0))
	for steps := 0; ; steps++ {
		if steps > 1000 {
			w.Fatal("the decisions do not end")
		}
		step, ok := w.n.Next(nil)
		if !ok {
			break
		}
		for _, uid := range step.Bind {
			s := w.waiting[uid]
			delete(w.waiting, uid)
			s.nominated, w.bound[uid] = false, s
			w.show(s)
		}
		for _, uid := range step.Continue {
			s := w.bound[uid]
			if s == nil || s.displaced == 0 || s.ending != 0 {
				w.Fatalf("%s goes on, which is not paused: %+v", uid, s)
			}
			s.displaced, s.changes = 0, w.now+rapid.Int64Range(0, 2).Draw(w.T, "thaws")
			w.show(s)
		}
		for _, uid := range step.Nominate {
			if s := w.waiting[uid]; s != nil {
				s.nominated = true
			}
		}
		by := w.all[step.For]
		for _, uid := range step.Victims {
			s := w.bound[uid]
			if s.Priority >= by.Priority && s.Group() == "" {
				w.Fatalf("%s ends for %s, which has no higher priority", uid, by.UID)
			}
			if s.ending = w.now + rapid.Int64Range(1, 3).Draw(w.T, "grace"); s.Pausable && s.Group() == "" && w.most == 1000 &&
				s.shape.Ask[corev1.ResourceCPU] > 0 {
				w.Fatalf("%s ends, though its CPU would be enough", uid)
			}
			w.show(s)
		}
		for _, uid := range step.Pause {
			s := w.bound[uid]
			if !s.Pausable || s.displaced != 0 || s.ending != 0 || s.Priority >= by.Priority {
				w.Fatalf("%s is paused for %s: %+v", uid, by.UID, s)
			}
			times := 0
			for _, n := range by.pauses {
				times += n
			}
			if s.pauses[by.UID]++; s.pauses[by.UID] > 1+times {
				w.Fatalf("%s is paused for %s again", uid, by.UID)
			}
			s.displaced, s.changes = w.now, w.now+rapid.Int64Range(0, 3).Draw(w.T, "freezes")
			w.show(s)
		}
		w.check()
	}
	w.check()
}

// check compares what runs with what the machine has.
func (w *pausingWorld) check() {
	cpu, memory := int64(0), int64(0)
	for _, s := range w.bound {
		if memory += s.shape.Ask[corev1.ResourceMemory]; !s.frozen || s.displaced == 0 {
			cpu += s.shape.Ask[corev1.ResourceCPU]
		}
	}
	if cpu > ofMachine || memory > w.memory || len(w.bound) > w.most {
		w.Fatalf("%d milli-CPUs and %d of memory are used by %d pods", cpu, memory, len(w.bound))
	}
	if got := w.n.used.All; got.Amounts[corev1.ResourceCPU] != cpu || got.Amounts[corev1.ResourceMemory] != memory || got.Pods != len(w.bound) {
		w.Fatalf("the node counts %+v, and %d milli-CPUs and %d of memory are used by %d pods", got, cpu, memory, len(w.bound))
	}
	pausing := map[int32]int{}
	for _, b := range w.n.bound {
		if b.pausing() {
			pausing[b.Priority]++
		}
	}
	for p, level := range w.n.used.By {
		if level.Pausing != pausing[p] {
			w.Fatalf("%d of priority %d are being paused, a recount gives %d", level.Pausing, p, pausing[p])
		}
	}
}

// second lets a second pass.
func (w *pausingWorld) second() {
	w.now++
	for _, uid := range slices.Sorted(maps.Keys(w.bound)) {
		s := w.bound[uid]
		if s.changes != 0 && s.changes <= w.now {
			s.changes, s.frozen = 0, s.displaced != 0
			w.show(s)
		}
		if !s.frozen {
			s.left--
		}
		if s.left > 0 && (s.ending == 0 || s.ending > w.now) {
			continue
		}
		delete(w.bound, uid)
		w.n.Gone(uid)
		if s.left > 0 { // it was ended before its time, and begins anew
			s.attempts++
			again := *s.Pod
			again.UID = types.UID(fmt.Sprintf("%s-%d", s.UID, s.attempts))
			anew := &shift{Pod: &again, left: s.left + 5, pauses: map[types.UID]int{}, attempts: s.attempts}
			w.all[again.UID], w.waiting[again.UID] = anew, anew
			w.n.Wait(&again, false)
		}
	}
}

// TestPausedPodsGoOn plays random workloads: the machine never has more than it has room for, nothing is paused and continued in turn, and
// everything comes to its end, also if the daemon is killed at any time.
func TestPausedPodsGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newPausingWorld(t)
		left := rapid.IntRange(3, 25).Draw(t, "pods")
		for i := 0; left > 0 || len(w.bound)+len(w.waiting) > 0; w.second() {
			for left > 0 && rapid.IntRange(0, 2).Draw(t, "comes") == 0 {
				w.arrive(i)
				i, left = i+1, left-1
			}
			w.pass()
			if rapid.IntRange(0, 15).Draw(t, "killed") == 0 {
				w.restart()
				w.check()
				w.pass()
			}
			if w.now > 10_000 {
				t.Fatalf("%d wait and %d are on the node, for ever", len(w.waiting), len(w.bound))
			}
		}
		if len(w.n.groups) != 2 || w.n.continuing != 0 || len(w.n.waiting)+len(w.n.used.By)+len(w.n.reserved.By) != 0 {
			t.Errorf("what is left: %v, %d, %v, %+v", w.n.groups, w.n.continuing, w.n.waiting, w.n.used)
		}
	})
}
