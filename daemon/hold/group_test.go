package hold

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/internal/heap"
)

func TestNextInAGroup(t *testing.T) {
	of := func(policy string, limit int) *member {
		return &member{Concurrency: core.Concurrency{Limit: limit, Policy: policy}}
	}
	queue, replacing := of(core.QueueConcurrent, 2), of(core.ReplaceConcurrent, 2)
	runs, narrow, ending, alone := &holder{Limit: 2}, &holder{Limit: 1}, &holder{Limit: 2, ending: true}, &holder{Limit: 2, alone: true}
	for _, c := range []struct {
		name      string
		first     *member
		holders   []*holder
		replacers int
		forbids   bool
		want      step
	}{
		{"nobody waits", nil, nil, 0, false, stay},
		{"there is a place", queue, []*holder{runs}, 0, false, admit},
		{"there is none", queue, []*holder{runs, runs}, 0, false, stay},
		{"one that runs wants fewer", queue, []*holder{narrow}, 0, false, stay},
		{"the first wants fewer", of(core.QueueConcurrent, 1), []*holder{runs}, 0, false, stay},
		{"there is a place, and one does not wait", queue, []*holder{runs}, 0, true, admit},
		{"there is none, and one does not wait", queue, []*holder{runs, runs}, 0, true, forbid},
		{"one replaces another", replacing, []*holder{runs, runs}, 1, false, replace},
		{"one is being replaced", replacing, []*holder{ending, runs}, 1, false, stay},
		{"the pods of one that is gone end by themselves", replacing, []*holder{alone, runs}, 1, false, stay},
		{"two replace two", replacing, []*holder{ending, runs}, 2, false, replace},
		{"more replace others than there may be", replacing, nil, 3, false, outdo},
		{"more run than there may be now", of(core.ReplaceConcurrent, 1), []*holder{ending, runs}, 1, false, replace},
	} {
		if got := next(c.first, c.holders, c.replacers, c.forbids); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Whatever runs and waits, somebody starts only where all limits allow it, and only as many end as there are to replace them.
func TestNextKeepsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 4)
		first := &member{Concurrency: core.Concurrency{Limit: limit.Draw(t, "limit"), Policy: core.QueueConcurrent}}
		var holders []*holder
		ending := 0
		for range rapid.IntRange(0, 5).Draw(t, "holders") {
			h := &holder{Limit: limit.Draw(t, "limit"), ending: rapid.Bool().Draw(t, "ending")}
			if holders = append(holders, h); h.ending {
				ending++
			}
		}
		replacers := rapid.IntRange(0, 4).Draw(t, "replacers")
		if replacers > 0 {
			first.Policy = core.ReplaceConcurrent
		}
		switch next(first, holders, replacers, rapid.Bool().Draw(t, "forbids")) {
		case admit:
			for _, h := range append(holders, &holder{Limit: first.Limit}) {
				if len(holders)+1 > h.Limit {
					t.Errorf("one more beside %d, and a limit is %d", len(holders), h.Limit)
				}
			}
		case replace:
			if ending >= len(holders) || replacers == 0 {
				t.Errorf("of %d are %d ending, for %d", len(holders), ending, replacers)
			}
		}
	})
}

func TestOrderInAGroup(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var queue heap.Heap[*member]
	for _, m := range []*member{
		{key: "young", created: at(3)}, {key: "old", created: at(1)}, {key: "important", created: at(9), priority: 5},
		{key: "first", created: at(8), ahead: at(10)}, {key: "b", created: at(2)}, {key: "a", created: at(2)},
	} {
		queue.Push(m)
	}
	for _, want := range []string{"important", "first", "old", "a", "b", "young"} {
		if got := queue.Pop(); got.key != want {
			t.Errorf("%s comes, want %s", got.key, want)
		}
	}
}

func TestWhoIsReplaced(t *testing.T) {
	holders := map[string]*holder{"new": {Since: 9}, "old": {Since: 2}, "ends": {Since: 1, ending: true}, "gone": {Since: 1, alone: true}}
	if uid, h := oldest(holders); uid != "old" || h == nil {
		t.Errorf("%s", uid)
	}
	if uid, h := oldest(map[string]*holder{"ends": {ending: true}}); h != nil {
		t.Errorf("%s", uid)
	}
}
