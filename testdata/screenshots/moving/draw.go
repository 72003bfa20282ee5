package main

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The size of a character, in the picture's units.
const (
	charWidth, charHeight = 8.4, 18
	border                = 12
	rest                  = 4000 // for which the last frame stays, in ms
)

// draw makes an SVG of a session: its frames stand side by side, and what is seen of them moves on. It is still for people who have
// asked for less motion, and shows the last frame.
func draw(s *session) string {
	width, height := int(float64(s.Columns)*charWidth)+2*border+1, s.Rows*charHeight+2*border
	var b, rows, frames, moves strings.Builder
	known := map[string]int{} // rows that are drawn, by their text
	screen := make([]string, s.Rows)
	end := rest
	if n := len(s.Frames); n > 0 {
		end += s.Frames[n-1].Milliseconds
	}
	for i, f := range s.Frames {
		for n, text := range f.Rows {
			screen[n] = text
		}
		fmt.Fprintf(&frames, `<svg x="%d">`, i*width)
		for n, text := range screen {
			if strings.TrimSpace(text) == "" {
				continue
			}
			id, ok := known[text]
			if !ok {
				id = len(known)
				known[text] = id
				fmt.Fprintf(&rows, `<g id="r%d">%s</g>`+"\n", id, row(text))
			}
			fmt.Fprintf(&frames, `<use href="#r%d" y="%d"/>`, id, n*charHeight)
		}
		frames.WriteString("</svg>\n")
		if i > 0 {
			fmt.Fprintf(&moves, "%.2f%%{transform:translateX(%dpx)}\n", 100*float64(f.Milliseconds)/float64(end), -i*width)
		}
	}
	last := -max(0, len(s.Frames)-1) * width
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" fill="#e4e8ec" role="img">
<title>jobctl submit runs a Job of 60 pods, three of which fail, and says why; jobctl watch shows them</title>
<style>
text{white-space:pre}
.m{transform:translateX(%dpx);animation:m %.1fs steps(1,end) infinite}
@keyframes m{
0%%{transform:none}
%s100%%{transform:translateX(%dpx)}
}
@media (prefers-reduced-motion:reduce){.m{animation:none}}
</style>
<defs>
%s</defs>
<rect width="100%%" height="100%%" rx="8" fill="#14181c"/>
<svg x="%d" y="%d" width="%d" height="%d"><g class="m">
%s</g></svg>
</svg>
`, width, height, last, float64(end)/1000, moves.String(), last, rows.String(), border, border, width-2*border, height-2*border, frames.String())
	return b.String()
}

// row draws one row of a terminal.
func row(text string) string {
	var b strings.Builder
	at, look := 0, style{}
	flush := func(run string) {
		n := utf8.RuneCountInString(run)
		if n == 0 {
			return
		}
		x, wide := float64(at)*charWidth, float64(n)*charWidth
		at += n
		front, back := look.colors()
		if back != "" {
			fmt.Fprintf(&b, `<rect x="%.1f" width="%.1f" height="%d" fill="%s"/>`, x, wide, charHeight, back)
		}
		if strings.TrimSpace(run) == "" {
			return
		}
		lead := len(run) - len(strings.TrimLeft(run, " "))
		run = strings.TrimSpace(run)
		x += float64(lead) * charWidth
		wide = float64(utf8.RuneCountInString(run)) * charWidth
		fmt.Fprintf(&b, `<text x="%.1f" y="13" textLength="%.1f"`, x, wide)
		if front != "" {
			fmt.Fprintf(&b, ` fill="%s"`, front)
		}
		if look.bold {
			b.WriteString(` font-weight="700"`)
		}
		if look.faint {
			b.WriteString(` opacity=".6"`)
		}
		b.WriteString(">")
		_ = xml.EscapeText(&b, []byte(run)) // a strings.Builder takes everything
		b.WriteString("</text>")
	}
	for text != "" {
		plain, after, found := strings.Cut(text, "\x1b[")
		flush(plain)
		if !found {
			break
		}
		codes, next, _ := strings.Cut(after, "m")
		look.take(codes)
		text = next
	}
	return b.String()
}

// style is how characters look.
type style struct {
	bold, faint, reverse bool
	front, back          string
}

// take takes in what stands between ESC [ and m.
func (s *style) take(codes string) {
	fields := strings.Split(codes, ";")
	for i := 0; i < len(fields); i++ {
		n, _ := strconv.Atoi(fields[i]) // nothing is 0, as on terminals
		switch {
		case n == 0:
			*s = style{}
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 7:
			s.reverse = true
		case n == 22:
			s.bold, s.faint = false, false
		case n == 27:
			s.reverse = false
		case n >= 30 && n <= 37:
			s.front = basic[n-30]
		case n >= 90 && n <= 97:
			s.front = basic[n-90]
		case n >= 40 && n <= 47:
			s.back = basic[n-40]
		case n == 39:
			s.front = ""
		case n == 49:
			s.back = ""
		case (n == 38 || n == 48) && i+2 < len(fields) && fields[i+1] == "5":
			of, _ := strconv.Atoi(fields[i+2])
			if i += 2; n == 38 {
				s.front = wide(of)
			} else {
				s.back = wide(of)
			}
		}
	}
}

// colors returns those of the text and of what is behind it; empty is that of the terminal.
func (s *style) colors() (front, back string) {
	if s.reverse {
		front, back = s.back, s.front
		if front == "" {
			front = "#14181c"
		}
		if back == "" {
			back = "#e4e8ec"
		}
		return front, back
	}
	return s.front, s.back
}

// basic are the first colors of a terminal.
var basic = []string{"#3b4048", "#e8691a", "#00a77a", "#f0b02e", "#6aa5e8", "#d68bb3", "#56b4e9", "#e4e8ec"}

// wide returns one of 256 colors, as xterm has them.
func wide(n int) string {
	switch {
	case n < 16:
		return basic[n%8]
	case n < 232:
		level := func(v int) int {
			if v == 0 {
				return 0
			}
			return 55 + 40*v
		}
		n -= 16
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
}
