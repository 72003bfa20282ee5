package terminal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/picture"
)

func setView(groups ...picture.Group) *SetView {
	return &SetView{Selected: -1, SetPicture: picture.SetPicture{
		Kind: picture.SetKind, At: 1_800_000_030_000, Created: 1_800_000_000, Name: "train", State: "Waiting",
		Restarts: 1, Counted: 1, MaxRestarts: ptr.To(3), Groups: groups,
	}}
}

func TestDrawSet(t *testing.T) {
	v := setView(
		picture.Group{Name: "leader", State: "Running", Replicas: 1, Jobs: "r", Counts: map[string]int{"Running": 1}},
		picture.Group{Name: "data", State: "Failed", Replicas: 1000, Jobs: "s900f10w90", Counts: map[string]int{"Complete": 900, "Failed": 10, "Waiting": 90}},
		picture.Group{Name: "workers", State: "Waiting", Replicas: 2, Jobs: "-2", Layer: 1, After: []picture.Arrow{
			{Group: "leader", Status: "ready", Has: 1, Of: 1, Met: true}, {Group: "data", Status: "complete", Has: 900, Of: 1000}}},
	)
	v.Why, v.Former, v.Selected = "group workers waits until data is complete", 2, 2
	got := strings.Join(DrawSet(v, Style{Width: 100, Height: 12}), "\n")
	want := `jobsets/train  Waiting  900 of 1003 Jobs succeeded  attempt 2  1 of 3 restarts  30s
waits: group workers waits until data is complete
2 Jobs of the attempt before have to be gone first
10 Failed  1 Running  90 Waiting  900 Complete  2 not there
  GROUP      STATE    JOBS                               AFTER
  leader     Running  > 0/1                              
  data       Failed   #####################X.. 900/1000  
>   workers  Waiting  __ 0/2                             + leader ready, data complete: 900 of 1000


` + "\n" + setKeys
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	v.Decided = "failurePolicy: ReachedMaxRestarts: too often"
	if got := DrawSet(v, Style{Width: 100, Height: 12})[1]; got != v.Decided {
		t.Errorf("instead of what has decided it says %q", got)
	}
}

// A chain of a hundred groups is where it goes on, and what is left out is said.
func TestManyGroupsAreFolded(t *testing.T) {
	var groups []picture.Group
	for i := range 100 {
		g := picture.Group{Name: fmt.Sprint("g", i), State: "Waiting", Replicas: 1, Jobs: "-", Layer: i}
		switch {
		case i < 50:
			g.State, g.Jobs, g.Counts = "Complete", "s", map[string]int{"Complete": 1}
		case i == 50:
			g.State, g.Jobs, g.Counts = "Running", "r", map[string]int{"Running": 1}
		}
		groups = append(groups, g)
	}
	lines := DrawSet(setView(groups...), Style{Width: 80, Height: 13})
	got := strings.Join(lines, "\n")
	for _, want := range []string{"g47  ", "g50  ", "g53  ", "and 93 more groups: 46 Waiting  47 Complete"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	v := setView(groups...)
	v.Selected = 99
	if got := strings.Join(DrawSet(v, Style{Width: 80, Height: 13}), "\n"); !strings.Contains(got, "g50  ") || !strings.Contains(got, ">             g99") {
		t.Errorf("the chosen group is not shown:\n%s", got)
	}
}

func TestEverySetFits(t *testing.T) {
	hostile := "\x1b]0;title\x07\x1b[2J" + strings.Repeat("世", 100) + "\r\n\x9b2J"
	for _, n := range []int{0, 1, 7, 200} {
		var groups []picture.Group
		for i := range n {
			groups = append(groups, picture.Group{
				Name: hostile, State: hostile, Replicas: 50, Jobs: "sfrwbpt-43", Layer: i, Counts: map[string]int{"Failed": 50},
				After: []picture.Arrow{{Group: hostile, Status: hostile, Has: 3, Of: 4}, {Group: hostile, Met: true}},
			})
		}
		v := setView(groups...)
		v.Name, v.State, v.Decided, v.Reasons = hostile, hostile, hostile, strings.Repeat(hostile+"\n", 99)
		for _, width := range []int{1, 2, 10, 80, 200} {
			for _, height := range []int{1, 2, 5, 24, 60} {
				for _, color := range []bool{true, false} {
					lines := DrawSet(v, Style{width, height, color})
					if len(lines) > height {
						t.Fatalf("%d groups in %dx%d: %d lines", n, width, height, len(lines))
					}
					for _, l := range lines {
						if got := ansi.StringWidth(l); got > max(1, width-1) {
							t.Fatalf("%d groups in %dx%d: a line of %d: %q", n, width, height, got, l)
						}
						if strings.ContainsAny(l, "\r\n\x07") || strings.Contains(l, "\x9b") || strings.Contains(l, "\x1b[2J") ||
							!color && strings.Contains(l, "\x1b") {
							t.Fatalf("a line could change the terminal: %q", l)
						}
					}
				}
			}
		}
	}
}
