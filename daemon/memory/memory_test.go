package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/runtime"
)

// held is what containers, by ID, and the groups of pods hold, and all of them.
type held struct {
	containers, pods map[string]int64
	all              int64
}

func (h held) Containers(context.Context) ([]runtime.Status, error) {
	return []runtime.Status{
		{PodUID: "alone", ID: "1", Name: "c"}, {PodUID: "group", ID: "2", Name: "c"}, {PodUID: "group", ID: "3", Name: "d"},
		{PodUID: "group", ID: "4", Name: "gone"},
	}, nil
}

func (h held) Usage(_, id string) (runtime.Usage, error) {
	n, ok := h.containers[id]
	if !ok {
		return runtime.Usage{}, errors.New("gone")
	}
	return runtime.Usage{Held: n}, nil
}

func (h held) HeldByPods() int64 { return h.all }

func (h held) HeldByPod(uid string, ids []string) int64 {
	n := h.pods[uid]
	if uid == "alone" {
		for _, id := range ids {
			n += h.containers[id]
		}
	}
	return n
}

func TestMeasure(t *testing.T) {
	machine := func() (int64, int64, error) { return 1000, 400, nil }
	for _, c := range []struct {
		rule                          string
		limit, held, capacity, remain int64
	}{
		{"pods may have all", 0, 700, 1000, 400},
		{"they are held to less", 500, 200, 500, 300},
		{"others leave them less than that", 900, 200, 900, 400},
		{"they hold more than they may, for a moment", 500, 501, 500, -1},
	} {
		got, err := Memory{Runtime: held{all: c.held}, Limit: c.limit, Machine: machine}.Measure()
		want := eviction.Supply{Capacity: eviction.Size{Bytes: c.capacity}, Available: eviction.Size{Bytes: c.remain}}
		if err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", c.rule, got, err, want)
		}
	}
	if total, available, err := ReadMachine(); err != nil || available <= 0 || total < available {
		t.Errorf("this machine has %d of %d, %v", available, total, err)
	}
}

// What ended containers have left in volumes is the pod's, and so is what counts for no control group.
func TestUses(t *testing.T) {
	outside := map[types.UID]int64{"hidden": 7, "many": 9}
	m := Memory{
		Runtime: held{
			containers: map[string]int64{"1": 10, "2": 20, "3": 30}, pods: map[string]int64{"group": 75, "left": 5, "alone": 3},
		},
		Outside: func(_ context.Context, p *corev1.Pod) (int64, bool) { return outside[p.UID], p.UID != "many" },
		Left:    NewLeft(slog.New(slog.DiscardHandler)),
	}
	for uid, want := range map[string]string{
		"alone": "map[c:{10 0}] {3 0} true", "group": "map[c:{20 0} d:{30 0}] {25 0} true",
		"left": "map[] {5 0} true", "none": "map[] {0 0} false", "hidden": "map[] {7 0} true", "many": "map[] {9 0} true",
	} {
		p := &corev1.Pod{}
		p.UID = types.UID(uid)
		use := m.Uses(t.Context(), []*corev1.Pod{p})[0]
		if use.Partly != (uid == "many") {
			t.Errorf("%s is counted in part: %t", uid, use.Partly)
		}
		if got := fmt.Sprint(use.Containers, " ", use.Volumes, " ", m.Holds(t.Context(), p)); got != want {
			t.Errorf("%s: %s, want %s", uid, got, want)
		}
	}
}
