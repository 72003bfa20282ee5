package picture

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/daemon/job"
)

const (
	// maxGroups is how many ways to fail are shown, and maxGroupCells how many cells of each.
	maxGroups     = 30
	maxGroupCells = 500
)

// way is the same for pods that have failed in the same way.
type way struct {
	exitCode int16
	reason   uint8
	line     string // without its numbers
}

// Failures groups the pods that have failed, by the last lines that they have printed too or, for those who may not read
// them, without.
func (a *Ended) Failures(d *Drawing, withLines bool) *picture.Failures {
	type group struct {
		picture.Failure
		cells job.Indexes
		final job.Indexes
	}
	groups := map[way]*group{}
	out := &picture.Failures{Groups: []picture.Failure{}}
	for i := range a.all {
		t := &a.all[i]
		if t.state != picture.Failed {
			continue
		}
		w := way{exitCode: t.exitCode, reason: t.reason}
		line := ""
		if f := a.failed[int32(i)]; f != nil && withLines {
			line = f.line
			w.line = withoutNumbers(line)
		}
		g := groups[w]
		if g == nil {
			if len(groups) == 10*maxGroups {
				out.More++
				continue
			}
			g = &group{}
			g.Line, g.Reason = line, a.reasons[t.reason]
			if t.exitCode >= 0 {
				code := int(t.exitCode)
				g.ExitCode = &code
			}
			groups[w] = g
		}
		g.Failure.Pods++
		cell := t.cell / int32(d.Cells.Per)
		if int64(t.end) >= g.Ended {
			g.Pod, g.Cell, g.Ended = a.name(int32(i)), int(cell), int64(t.end)
		}
		if int(cell) < len(d.states) && d.states[cell] == picture.Failed {
			g.final.Add(cell)
		}
		switch {
		case int(cell) >= len(d.states):
		case g.cells.Len() < maxGroupCells || g.cells.Has(cell):
			g.cells.Add(cell)
		default:
			g.More = true
		}
	}
	all := slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(
			cmp.Compare(b.final.Len(), a.final.Len()), cmp.Compare(b.Failure.Pods, a.Failure.Pods), cmp.Compare(a.Cell, b.Cell),
			cmp.Compare(a.Line, b.Line),
		)
	})
	for i, g := range all {
		if i >= maxGroups {
			out.More += g.Failure.Pods
			continue
		}
		g.Failure.Cells, g.Failure.Final = g.cells.String(), g.final.Len()
		out.Groups = append(out.Groups, g.Failure)
	}
	return out
}

// withoutNumbers puts a # in place of each number, so that lines that differ in times or counts are the same.
func withoutNumbers(line string) string {
	out := make([]byte, 0, len(line))
	for i := range len(line) {
		c := line[i]
		if c >= '0' && c <= '9' {
			if n := len(out); n > 0 && out[n-1] == '#' {
				continue
			}
			c = '#'
		}
		out = append(out, c)
	}
	return string(out)
}
