package interactive

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/jobd/jobd/internal/printable"
)

// screen writes messages. The last one may be a status, which on a terminal is written over by the next.
type screen struct {
	to       io.Writer
	terminal bool
	shown    string // the status that stands there
}

func newScreen(to io.Writer) *screen { return &screen{to: to, terminal: IsTerminal(to)} }

// status says how it is now.
func (s *screen) status(text string) {
	text = printable.Line(text)
	if text == s.shown {
		return
	}
	s.clear()
	s.shown = text
	if !s.terminal {
		fmt.Fprintln(s.to, text)
		return
	}
	width := 80
	if f, ok := s.to.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 1 {
			width = w
		}
	}
	fmt.Fprint(s.to, ansi.Truncate(text, width-1, "…"))
}

// clear removes the status.
func (s *screen) clear() {
	if s.shown != "" && s.terminal {
		fmt.Fprint(s.to, "\r\x1b[2K")
	}
	s.shown = ""
}

// say writes a message that stays.
func (s *screen) say(text string) {
	s.clear()
	text = strings.TrimRight(printable.Text(text), "\n") + "\n"
	if s.terminal { // which may be in raw mode
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	fmt.Fprint(s.to, text)
}
