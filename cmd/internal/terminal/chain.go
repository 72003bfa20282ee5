package terminal

import (
	"fmt"
	"strings"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/cmd/internal/hue"
	"github.com/jobd/jobd/internal/printable"
)

// chain shows for which other Jobs a Job waits, in as many lines as there may be.
func chain(links []picture.Link, most int, s Style) (lines []string) {
	for i, l := range links {
		if i == most-1 && len(links) > most {
			return append(lines, s.paint(245, fmt.Sprintf("  and %d more", len(links)-i)))
		}
		color, mark, state := 245, ' ', l.State
		switch {
		case l.Met:
			mark = '+'
		case l.State == "":
			color, state = 214, "there is none yet"
		case l.State == batch.StateFailed:
			color = hue.Of(l.State).Wide()
		}
		need := batch.Need{Name: l.Name, When: l.When}
		line := fmt.Sprintf("%s%c after %s: %s", strings.Repeat("  ", l.Depth), mark, printable.Line(need.Words()), printable.Line(state))
		lines = append(lines, s.paint(color, line))
	}
	return lines
}
