package image

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestChoose(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	image := func(name string, idle time.Duration, edit ...func(*candidate)) candidate {
		c := candidate{names: []string{name}, pulled: true, lastUsed: now.Add(-idle)}
		for _, e := range edit {
			e(&c)
		}
		return c
	}
	inUse, imported := func(c *candidate) { c.inUse = true }, func(c *candidate) { c.pulled = false }
	for _, c := range []struct {
		rule           string
		policy         GCPolicy
		images         []candidate
		expired, spare string
	}{
		{"the one that was not used for the longest time goes first", GCPolicy{},
			[]candidate{image("b", 2*time.Hour), image("a", time.Hour), image("c", 3*time.Hour)}, "", "c b a"},
		{"one that a pod uses stays", GCPolicy{MaxAge: time.Minute}, []candidate{image("a", time.Hour, inUse)}, "", ""},
		{"one that was pulled or used a moment ago stays", GCPolicy{MinAge: time.Minute},
			[]candidate{image("a", 59*time.Second), image("b", time.Minute)}, "", "b"},
		{"one that is older than the greatest age goes in any case", GCPolicy{MinAge: time.Second, MaxAge: time.Hour},
			[]candidate{image("a", time.Hour), image("b", time.Hour+1)}, "b", "a"},
		{"an imported one stays", GCPolicy{MaxAge: time.Minute}, []candidate{image("a", time.Hour, imported)}, "", ""},
		{"an imported one goes where that is wanted", GCPolicy{MaxAge: time.Minute, Imported: true}, []candidate{image("a", time.Hour, imported)}, "a", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			expired, spare := c.policy.choose(c.images, now)
			if e, s := inShort(expired), inShort(spare); e != c.expired || s != c.spare {
				t.Errorf("expired %q, spare %q; want %q, %q", e, s, c.expired, c.spare)
			}
		})
	}
}

func inShort(list []candidate) string {
	var out []string
	for _, c := range list {
		out = append(out, c.names[0])
	}
	return strings.Join(out, " ")
}

func TestExcess(t *testing.T) {
	for _, c := range []struct {
		rule string
		high int
		low  int
		disk Disk
		want int64
	}{
		{"nothing while there is room", 85, 80, Disk{1000, 151}, 0},
		{"down to the low threshold from the high one on", 85, 80, Disk{1000, 150}, 50},
		{"the whole difference of a full disk", 85, 80, Disk{1000, 0}, 200},
		{"never with 100", 100, 80, Disk{1000, 0}, 0},
		{"nothing of a disk that is not known", 85, 80, Disk{}, 0},
	} {
		if got := (GCPolicy{HighThreshold: c.high, LowThreshold: c.low}).excess(c.disk); got != c.want {
			t.Errorf("%s: %d, want %d", c.rule, got, c.want)
		}
	}
}

// Whatever images there are: none goes that must stay, each one that may go does so once, and in order.
func TestChooseKeepsItsPromises(t *testing.T) {
	now := time.Now()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := GCPolicy{MinAge: time.Duration(r.IntN(5)) * time.Minute, Imported: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			p.MaxAge = p.MinAge + time.Duration(r.IntN(5))*time.Minute
		}
		var all []candidate
		for n := range r.IntN(20) {
			all = append(
				all,
				candidate{
					names: []string{fmt.Sprint("i", n)}, pulled: r.IntN(3) > 0, inUse: r.IntN(3) == 0,
					lastUsed: now.Add(-time.Duration(r.IntN(12)) * time.Minute),
				},
			)
		}
		expired, spare := p.choose(all, now)
		gone := map[string]bool{}
		for _, list := range [][]candidate{expired, spare} {
			if !slices.IsSortedFunc(list, func(a, b candidate) int { return a.lastUsed.Compare(b.lastUsed) }) {
				t.Fatalf("seed %d: not in order: %+v", seed, list)
			}
			for _, c := range list {
				if c.inUse || now.Sub(c.lastUsed) < p.MinAge || !c.pulled && !p.Imported || gone[c.names[0]] {
					t.Fatalf("seed %d: %+v must not go", seed, c)
				}
				gone[c.names[0]] = true
			}
		}
		for _, c := range all {
			old := p.MaxAge > 0 && now.Sub(c.lastUsed) > p.MaxAge
			free := !c.inUse && now.Sub(c.lastUsed) >= p.MinAge && (c.pulled || p.Imported)
			if free && !gone[c.names[0]] || free && old != slices.ContainsFunc(expired, func(e candidate) bool { return e.names[0] == c.names[0] }) {
				t.Fatalf("seed %d: %+v stays, or is in the wrong list", seed, c)
			}
		}
	}
}
