package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/cmd/internal/hue"
	"github.com/jobd/jobd/internal/printable"
)

// SetView is the picture of a JobSet.
type SetView struct {
	picture.SetPicture
	// Why is what it waits for, in a few words; empty if it does not, or that is not known. Reasons is the same in full.
	Why     string
	Reasons string
	// Selected is the group that is chosen; -1 for none.
	Selected int
}

// setKeys are those of the picture of a JobSet, as it shows them.
const setKeys = "? keys  up/down group  Enter its Jobs  w why  d describe  q quit"

// cellsOfGroup is how many places there are for the Jobs of a group.
const cellsOfGroup = 24

// DrawSet shows a JobSet: its groups, each behind those that it waits for, with a cell for each Job.
func DrawSet(v *SetView, s Style) []string {
	if v.Kind == "" {
		return s.fit([]string{"..."}, setKeys)
	}
	lines := []string{v.head(s)}
	switch {
	case v.Decided != "":
		lines = append(lines, s.paint(245, printable.Line(v.Decided)))
	case v.Why != "" && v.Ended == 0 && v.State != batch.StateRunning:
		lines = append(lines, s.paint(214, "waits: "+printable.Line(v.Why)))
	}
	if v.Former > 0 {
		lines = append(lines, fmt.Sprintf("%d Jobs of the attempt before have to be gone first", v.Former))
	}
	if v.InOrder {
		lines = append(lines, s.paint(245, "one group begins after the other (startupPolicy InOrder)"))
	}
	lines = append(lines, v.legend(s))
	room := max(1, s.Height-2-len(lines))
	if v.Reasons != "" { // for what it waits is as much to be seen as the groups
		room = max(1, min(room, s.Height*2/3))
	}
	lines = append(lines, v.table(room, s)...)
	return s.fit(append(lines, reasons(v.Reasons, s.Height-1-len(lines), s)...), setKeys)
}

func (v *SetView) head(s Style) string {
	done, all := 0, 0
	for i := range v.Groups {
		done, all = done+v.Groups[i].Done(), all+v.Groups[i].Replicas
	}
	head := s.strong("jobsets/"+printable.Line(v.Name)) + "  " + s.paint(hue.Of(v.State).Wide(), printable.Line(v.State)) +
		fmt.Sprintf("  %d of %d Jobs succeeded", done, all)
	if v.Restarts > 0 {
		head += fmt.Sprintf("  attempt %d", v.Restarts+1)
	}
	if v.MaxRestarts != nil {
		head += fmt.Sprintf("  %d of %d restarts", v.Counted, *v.MaxRestarts)
	}
	end := v.Ended
	if end == 0 {
		end = v.At / 1000
	}
	return head + "  " + (time.Duration(max(0, end-v.Created)) * time.Second).String()
}

// legend says how many Jobs have each state.
func (v *SetView) legend(s Style) string {
	counts, there, all := map[string]int{}, 0, 0
	for i := range v.Groups {
		all += v.Groups[i].Replicas
		for state, n := range v.Groups[i].Counts {
			counts[state] += n
			there += n
		}
	}
	return inWords(counts, all-there, s)
}

// words are the states of Jobs, and of groups, in the order in which they are counted.
var words = []string{
	batch.StateFailed, batch.StateFailing, batch.StateRunning, batch.StateWaiting, batch.StatePreempted, batch.StatePaused, batch.StateSuspended,
	batch.StateTerminating, batch.StateCompleting, batch.StateComplete,
}

// inWords says how many have each state, and how many there are not.
func inWords(counts map[string]int, missing int, s Style) string {
	var all []string
	for _, state := range words {
		if n := counts[state]; n > 0 {
			all = append(all, s.paint(hue.Of(state).Wide(), fmt.Sprintf("%d %s", n, state)))
		}
	}
	if missing > 0 {
		all = append(all, s.paint(245, fmt.Sprintf("%d not there", missing)))
	}
	return strings.Join(all, "  ")
}

// table has a line for each group, as many as there may be, and one for all others.
func (v *SetView) table(room int, s Style) (lines []string) {
	shown := picture.GroupsToShow(v.Groups, v.Selected, max(0, room-2))
	name, state := len("GROUP"), len("STATE")
	for _, i := range shown {
		name, state = max(name, ansi.StringWidth(v.name(i))), max(state, len(v.Groups[i].State))
	}
	name = min(name, max(12, s.Width*2/5))
	cells := 0
	for _, i := range shown {
		cells = max(cells, ansi.StringWidth(ansi.Strip(jobsOf(&v.Groups[i], s))))
	}
	pad := func(text string, width int) string {
		text = ansi.Truncate(text, width, "…")
		return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + "  "
	}
	lines = append(lines, s.paint(245, "  "+pad("GROUP", name)+pad("STATE", state)+pad("JOBS", cells)+"AFTER"))
	for _, i := range shown {
		g := &v.Groups[i]
		line := pad(v.name(i), name) + s.paint(hue.Of(g.State).Wide(), pad(printable.Line(g.State), state)) + pad(jobsOf(g, s), cells) + after(g, s)
		lines = append(lines, s.chosen(line, i == v.Selected))
	}
	if len(shown) < len(v.Groups) {
		counts, hidden := map[string]int{}, 0
		for i := range v.Groups {
			if !slices.Contains(shown, i) {
				counts[v.Groups[i].State]++
				hidden++
			}
		}
		lines = append(lines, "  "+fmt.Sprintf("and %d more groups: ", hidden)+inWords(counts, 0, s))
	}
	return lines
}

// name is that of a group, as far to the right as groups are before it.
func (v *SetView) name(i int) string {
	indent := strings.Repeat("  ", min(v.Groups[i].Layer, 6))
	return indent + printable.Line(v.Groups[i].Name)
}

// jobsOf has a cell for each Job of a group or, if they are many, for some of them, and how many of how many are complete.
func jobsOf(g *picture.Group, s Style) string {
	states, err := picture.Symbols(g.Jobs, max(1, g.Replicas))
	if err != nil {
		return fmt.Sprintf("%d/%d", g.Done(), g.Replicas)
	}
	per := max(1, (len(states)+cellsOfGroup-1)/cellsOfGroup)
	cells := ""
	for part := range slices.Chunk(states, per) {
		rank := -1
		for _, state := range part {
			rank = max(rank, slices.Index(worst, state))
		}
		mark, color := "_", 238 // none of them is there
		if rank >= 0 {
			l := looks[worst[rank]]
			mark, color = string(rune(l.letter)), l.colors[len(l.colors)-1]
		}
		if s.Color {
			mark = "■"
		}
		cells += s.paint(color, mark)
	}
	return fmt.Sprintf("%s %d/%d", cells, g.Done(), g.Replicas)
}

// after says what a group waits for: what is so has a plus.
func after(g *picture.Group, s Style) string {
	var all []string
	for _, a := range g.After {
		said := printable.Line(a.Group) + " " + printable.Line(a.Status)
		if a.Met {
			all = append(all, s.paint(245, "+ "+said))
		} else {
			all = append(all, s.paint(214, fmt.Sprintf("%s: %d of %d", said, a.Has, a.Of)))
		}
	}
	return strings.Join(all, ", ")
}
