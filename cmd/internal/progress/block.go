package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/cmd/internal/hue"
	"github.com/jobd/jobd/internal/printable"
)

// The most that a block shows of each.
const (
	maxCellRows = 3
	maxPods     = 6
	maxImages   = 4
	maxLogLines = 3
)

// style says how a block may look.
type style struct {
	width, height int // of the terminal
	color         bool
}

// paint puts text into a color of ANSI.
func (s style) paint(color int, text string) string {
	if !s.color || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", color, text)
}

const (
	red   = 31
	cyan  = 36
	faint = 2
)

// block returns the lines of the live block, each of which fits into the terminal. last are the last lines of logs, where
// those are not on the terminal themselves.
func block(m *Model, now time.Time, last []string, s style) []string {
	var lines []string
	if j := m.Job(); j != nil {
		lines = append(lines, headline(j, now, s))
		if why := m.Why(); why != "" {
			lines = append(lines, "  "+s.paint(hue.Waits.Basic(), "waits: "+printable.Line(why)))
		}
		lines = append(lines, bar(j, s))
		lines = append(lines, cells(j, m.Pods(), s)...)
	}
	for i, t := range m.Images() {
		if i == maxImages {
			break
		}
		lines = append(lines, "  "+s.paint(cyan, t.State)+" "+t.Name+"  "+t.amount())
	}
	lines = append(lines, podLines(m.Pods(), m.Far, now, s)...)
	for _, l := range last {
		lines = append(lines, s.paint(faint, "  | "+l))
	}
	if most := max(1, s.height-1); len(lines) > most {
		lines = lines[:most]
	}
	for i := range lines {
		// What is in them comes from a server, names too.
		lines[i] = ansi.Truncate(printable.ColoredLine([]byte(lines[i])), max(1, s.width-1), "…")
	}
	return lines
}

func headline(j *batchv1.Job, now time.Time, s style) string {
	state, reason, _ := JobState(j)
	color := hue.Of(state)
	out := "job " + j.Name + "  " + s.paint(color.Basic(), state)
	if start := j.Status.StartTime; start != nil {
		end := now
		if c := batch.End(&j.Status); c != nil {
			end = c.LastTransitionTime.Time
		}
		out += "  " + short(max(0, end.Sub(start.Time)).Round(time.Second))
	}
	out += "  " + CountsOf(j).String()
	if reason != "" && color == hue.Bad {
		out += "  " + reason
	}
	return out
}

// bar shows how many of the completions there are.
func bar(j *batchv1.Job, s style) string {
	c := CountsOf(j)
	total := max(1, c.Completions, c.Succeeded)
	width := min(40, s.width-10)
	if width < 4 {
		return ""
	}
	done := int(int64(width) * int64(c.Succeeded) / int64(total))
	active := min(width-done, int((int64(width)*int64(c.Active)+int64(total)-1)/int64(total)))
	return "  " + s.paint(hue.Good.Basic(), strings.Repeat("█", done)) + s.paint(hue.Runs.Basic(), strings.Repeat("▒", active)) +
		s.paint(faint, strings.Repeat("░", width-done-active)) + fmt.Sprintf(" %d%%", 100*int64(c.Succeeded)/int64(total))
}

// cellState is what a cell shows; of several indexes in one cell, the highest.
type cellState int

const (
	cellPending cellState = iota
	cellDone
	cellStarting
	cellRunning
	cellFailed
)

// cells shows the state of each index of an Indexed Job, several in a cell where there are too many.
func cells(j *batchv1.Job, pods []*Pod, s style) []string {
	if j.Spec.CompletionMode == nil || *j.Spec.CompletionMode != batchv1.IndexedCompletion || j.Spec.Completions == nil {
		return nil
	}
	n, row := int(*j.Spec.Completions), s.width-4
	if n == 0 || row < 1 {
		return nil
	}
	per := (n + row*maxCellRows - 1) / (row * maxCellRows)
	states := make([]cellState, (n+per-1)/per)
	for i := range states {
		states[i] = -1
	}
	mark := func(first, last int, state cellState) {
		for i := first / per; i <= min(last, n-1)/per; i++ {
			states[i] = max(states[i], state)
		}
	}
	markAll := func(list string, state cellState) {
		indexes.EachRun(list, func(first, last int32) { mark(int(first), int(last), state) })
	}
	markAll(j.Status.CompletedIndexes, cellDone)
	markAll(ptr.Deref(j.Status.FailedIndexes, ""), cellFailed)
	for _, p := range pods {
		if p.Index == nil || *p.Index < 0 || *p.Index >= n {
			continue
		}
		switch p.State {
		case Pending, Starting:
			mark(*p.Index, *p.Index, cellStarting)
		case Running, Stopping:
			mark(*p.Index, *p.Index, cellRunning)
		}
	}
	var lines []string
	for chunk := range slices.Chunk(states, row) {
		line := "  "
		for _, state := range chunk {
			switch state {
			case cellDone:
				line += s.paint(hue.Good.Basic(), "■")
			case cellStarting:
				line += s.paint(hue.Waits.Basic(), "□")
			case cellRunning:
				line += s.paint(hue.Runs.Basic(), "▣")
			case cellFailed:
				line += s.paint(hue.Bad.Basic(), "✘")
			default:
				line += s.paint(faint, "·")
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// podLines shows the pods that have not ended: first those that wait for something, then those that have run longest.
func podLines(pods []*Pod, far func(pod string) string, now time.Time, s style) []string {
	active := slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return p.State.over() })
	slices.SortStableFunc(active, func(a, b *Pod) int {
		return cmp.Or(compareBool(a.Reason == "", b.Reason == ""), b.rank()-a.rank(), cmp.Compare(a.Name, b.Name))
	})
	var lines []string
	for i, p := range active {
		if i == maxPods && len(active) > maxPods+1 {
			lines = append(lines, s.paint(faint, fmt.Sprintf("  and %d more", len(active)-i)))
			break
		}
		line := "  " + p.Name + "  " + s.paint(hue.Of(string(p.State)).Basic(), string(p.State))
		if len(p.Values) > 0 {
			line += "  " + batch.IndexWords(p.Values)
		}
		if p.State == Running {
			line += "  " + short(p.Duration(now).Round(time.Second))
		}
		if said := far(p.Name); said != "" {
			line += "  " + s.paint(cyan, said)
		}
		if p.Restarts > 0 {
			line += fmt.Sprintf("  %d restarts", p.Restarts)
		}
		if p.Reason != "" {
			line += "  " + s.paint(red, printable.Line(p.Reason))
			if p.Message != "" {
				line += ": " + printable.Line(p.Message)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (p *Pod) rank() int {
	return slices.Index([]PodState{Pending, Starting, Stopping, Running}, p.State)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
