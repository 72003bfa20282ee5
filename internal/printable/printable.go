// Package printable makes text of others fit to be shown. Containers, registries and other users write what they like, also what
// moves the cursor, sets the title of the terminal, or shows a text in another order than it is in.
package printable

import (
	"io"
	"strings"
	"sync"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// hidden reports whether a character is not seen itself, but changes how others are shown: what controls a terminal or the direction
// of writing, breaks of lines that only some know, and what has no width. Joiners are none of these: emoji and several scripts
// need them.
func hidden(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case r == nonJoiner || r == joiner || unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

func isSpace(r rune) bool { return r == '\t' || r == '\n' }

// seen is the character to show for another one.
func seen(r rune) rune {
	if hidden(r) && !isSpace(r) {
		return unicode.ReplacementChar
	}
	return r
}

// Text is plain text of several lines, in which what is hidden can be seen to be there.
func Text(text string) string { return strings.Map(seen, text) }

// Writer returns a writer of such text, which several goroutines may use. A character may be written in several pieces.
func Writer(to io.Writer) io.Writer { return &writer{to: transform.NewWriter(to, runes.Map(seen))} }

type writer struct {
	mu sync.Mutex
	to io.Writer
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// XML is text of several lines for XML, which cannot hold control characters: what is hidden is left out.
func XML(text string) string { return strings.Map(shown, strings.ToValidUTF8(text, "\uFFFD")) }

// shown leaves out what is hidden.
func shown(r rune) rune {
	if hidden(r) && !isSpace(r) {
		return -1
	}
	return r
}

// Line is a text as part of one line without colors.
func Line(text string) string {
	return ansi.Strip(ColoredLine([]byte(strings.ReplaceAll(text, "\n", " "))))
}

// ColoredLine is a line that was written for a terminal, without what could move the cursor or change the terminal: colors
// stay, tabs become spaces, and of a line that was overwritten with carriage returns the last text is kept.
func ColoredLine(line []byte) string {
	text := strings.TrimRight(strings.ToValidUTF8(string(line), "\uFFFD"), "\r")
	if i := strings.LastIndexByte(text, '\r'); i >= 0 {
		text = text[i+1:]
	}
	var out strings.Builder
	column, colored := 0, false
	for state := byte(0); len(text) > 0; {
		seq, width, n, next := ansi.DecodeSequence(text, state, nil)
		text, state = text[n:], next
		switch {
		case seq == "\t":
			spaces := 8 - column%8
			out.WriteString(strings.Repeat(" ", spaces))
			column += spaces
		case strings.HasPrefix(seq, "\x1b[") && strings.HasSuffix(seq, "m") && !strings.ContainsAny(seq, "?<=>"):
			out.WriteString(seq)
			colored = true
		case width > 0:
			out.WriteString(strings.Map(shown, seq))
			column += width
		case seq >= "\u00a0" && !strings.HasPrefix(seq, "\x1b"): // of no width, such as a joiner
			out.WriteString(strings.Map(shown, seq))
		}
	}
	if colored {
		out.WriteString("\x1b[0m")
	}
	return out.String()
}
