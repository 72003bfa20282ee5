package node

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/requests"
)

func TestPodsThatArePutAheadComeFirstOfTheirPriority(t *testing.T) {
	n := New(1, nil)
	n.Bound(&Pod{UID: "runs"}, time.Unix(1, 0), false)
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for i, uid := range []types.UID{"a", "b", "c"} {
		n.Wait(&Pod{UID: uid, Created: uint32(i)}, false)
	}
	n.Wait(&Pod{UID: "d", Created: 9, Ahead: Ahead(at(10))}, false)
	n.Wait(&Pod{UID: "high", Priority: 1, Polite: true, Created: 20}, false)
	if _, ok := n.Next(nil); ok {
		t.Fatal("there is no room")
	}
	n.Reorder("c", at(30), nil)
	n.Reorder("d", at(10), nil)
	n.Reorder("gone", at(10), nil)
	places := n.Places(func(uid types.UID) string { return string(uid) })
	var order []types.UID
	runs := types.UID("runs")
	for range 5 {
		n.Gone(runs)
		step, ok := n.Next(nil)
		if !ok || len(step.Bind) != 1 {
			t.Fatalf("%+v", step)
		}
		runs = step.Bind[0]
		order = append(order, runs)
		if places[string(runs)] != len(order) {
			t.Errorf("%s was at place %d", runs, places[string(runs)])
		}
	}
	if want := []types.UID{"high", "c", "d", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("they start in the order %v, want %v", order, want)
	}
}

func TestPodsOfOneSecondStartInTheOrderInWhichTheyCame(t *testing.T) {
	n := New(1, nil)
	n.Bound(&Pod{UID: "runs"}, time.Unix(1, 0), false)
	want := []types.UID{"c", "a", "d", "b"}
	for _, uid := range want {
		n.Wait(&Pod{UID: uid, Created: 2}, false)
	}
	runs := types.UID("runs")
	for _, uid := range want {
		n.Gone(runs)
		step, ok := n.Next(nil)
		if !ok || !slices.Equal(step.Bind, []types.UID{uid}) {
			t.Fatalf("%+v, want %s", step, uid)
		}
		runs = uid
	}
}

func TestAhead(t *testing.T) {
	year := func(y int) int64 { return Ahead(time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)) }
	if Ahead(time.Time{}) != 0 {
		t.Error("a pod that nobody has put ahead is ahead")
	}
	// Most of these years are beyond what nanoseconds in 64 bits can tell.
	for y, before := range map[int]int{1000: 1980, 1500: 1980, 1960: 1980, 1980: 2026, 2026: 2200, 2200: 3000} {
		if year(y) <= 0 || year(y) >= year(before) {
			t.Errorf("%d is %d, %d is %d", y, year(y), before, year(before))
		}
	}
}

// The deadline of a Job may change while its pods run: then the room that is kept for others is to be expected at another time.
func TestAnotherDeadlineOfAPodThatRuns(t *testing.T) {
	n := New(9, requests.Resources{"cpu": 2000})
	n.StarvationAfter = 10 * time.Second
	n.At(time.Unix(1000, 0))
	n.run(want("runs", 1, 2000), 1000)
	n.Wait(want("waits", 900, 2000), false)
	for _, deadline := range []*int64{nil, ptr.To[int64](1024), ptr.To[int64](512), nil} {
		n.Reorder("runs", time.Time{}, deadline)
		decide(n)
		first, _, by := n.Keeps()
		if first != "waits" || by.IsZero() != (deadline == nil) || deadline != nil && by.Unix() != 1000+*deadline {
			t.Errorf("with %v room is kept for %q by %s", deadline, first, by)
		}
	}
}
