// Package terminal draws Jobs for a terminal: the list of them (Overview), and the picture of one in half blocks (Draw). It
// only makes lines that fit; keys and requests are cmd/internal/watch's. What others have written is shown without anything that could
// move the cursor or change the terminal.
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

// Style says how lines may look.
type Style struct {
	Width, Height int
	// Color: 256 of them. Without, states are letters, and what is chosen has a mark.
	Color bool
}

// look is how a state is shown: in 256 colours, of which a succeeded cell has several by its duration, and as a letter.
type look struct {
	colors []int
	letter byte
	name   string
}

// looks are close to the colours of Okabe and Ito, which people of all kinds of sight can tell apart.
var looks = map[byte]look{
	picture.Waiting:   {[]int{238}, '.', "waiting"},
	picture.Running:   {[]int{74}, '>', "running"},
	picture.Succeeded: {[]int{23, 29, 36}, '#', "succeeded"},
	picture.Failed:    {[]int{166}, 'X', "failed"},
	picture.BackOff:   {[]int{214}, '!', "to be retried"},
	picture.Suspended: {[]int{175}, '=', "suspended"},
	picture.Stopped:   {[]int{245}, '-', "stopped"},
}

// worst has the states from the one that is shown last, where several share a place, to the one that is shown first.
var worst = []byte{
	picture.Succeeded, picture.Waiting, picture.Suspended, picture.Stopped, picture.Running, picture.BackOff, picture.Failed,
}

func (l look) color(level int) int {
	return l.colors[min(len(l.colors)-1, max(0, level-1)*len(l.colors)/15)]
}

func (s Style) paint(color int, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[38;5;%dm%s\x1b[0m", color, text)
}

func (s Style) strong(text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// fit makes lines as wide and as many as the terminal is, with the keys in the last one.
func (s Style) fit(lines []string, keys string) []string {
	room := max(0, s.Height-1)
	lines = lines[:min(len(lines), room)]
	for len(lines) < room {
		lines = append(lines, "")
	}
	lines = append(lines, s.paint(245, keys))
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], max(1, s.Width-1), "…")
	}
	return lines
}

// chosen marks a line.
func (s Style) chosen(line string, is bool) string {
	switch {
	case !is:
		return "  " + line
	case s.Color:
		return s.paint(74, "▌ ") + s.strong(line)
	}
	return "> " + line
}

// View is the picture of a Job with its columns decoded.
type View struct {
	picture.Picture
	States, Details []byte
	// Why is why the Job waits, in a few words; empty if it does not, or that is not known. Reasons is the same in full.
	Why     string
	Reasons string
	// Last is the end of the log of the pod LastOf, that of the chosen failure.
	LastOf, Last string
	// Back: there is an overview behind it.
	Back bool
}

// Update takes in an answer of the server, see picture.Picture.
func (v *View) Update(p *picture.Picture) error {
	if !p.Delta {
		*v = View{Why: v.Why, Reasons: v.Reasons, LastOf: v.LastOf, Last: v.Last, Back: v.Back}
	}
	v.At, v.Cursor = p.At, p.Cursor
	if p.Job != nil {
		v.Job = p.Job
	}
	if p.Stream != nil {
		v.Stream = p.Stream
	}
	if p.Histograms != nil {
		v.Histograms = p.Histograms
	}
	if p.Failures != nil {
		v.Failures = p.Failures
	}
	if p.Progress != nil || !p.Delta {
		v.Progress = p.Progress
	}
	var err error
	if c := p.Cells; c != nil {
		v.Cells = c
		if v.States, err = picture.Symbols(c.States, picture.MaxCells); err != nil {
			return err
		}
		if v.Details, err = picture.Symbols(c.Details, picture.MaxCells); err != nil {
			return err
		}
	}
	if c := p.Changed; c != nil {
		states, err := picture.Symbols(c.States, picture.MaxCells)
		if err != nil {
			return err
		}
		details, err := picture.Symbols(c.Details, picture.MaxCells)
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(c.Cells); i += 2 {
			first, n := c.Cells[i], c.Cells[i+1]
			if first < 0 || n < 0 || first+n > len(v.States) || first+n > len(v.Details) || n > len(states) || n > len(details) {
				return fmt.Errorf("the server has changed cells that it has not shown before")
			}
			copy(v.States[first:first+n], states)
			copy(v.Details[first:first+n], details)
			states, details = states[n:], details[n:]
		}
	}
	return nil
}

// keys are those that do something in the picture of a Job, as it shows them.
func (v *View) keys() string {
	keys := "? keys  "
	if v.Failures != nil && len(v.Failures.Groups) > 1 {
		keys += "up/down failure  "
	}
	keys += "l logs  w why  d describe  "
	switch {
	case v.Job == nil:
	case v.Job.State == batch.StateFailed:
		keys += "r retry  "
	case v.Job.State == batch.StateSuspended:
		keys += "s resume  "
	case v.Job.Ended == 0:
		keys += "s suspend  "
	}
	keys += "x delete  "
	if v.Back {
		keys += "Esc back  "
	}
	return keys + "q quit"
}

// rest fills so many lines with what helps next: the end of the log of the chosen failure, and why the Job is as it is.
func (v *View) rest(room int, s Style) (lines []string) {
	most := room
	if v.Reasons != "" {
		most = room / 2
	}
	lines = part("last lines of pods/"+printable.Line(v.LastOf), v.Last, most, true, s)
	return append(lines, reasons(v.Reasons, room-len(lines), s)...)
}

// reasons says in full why something is as it is.
func reasons(text string, room int, s Style) []string { return part("why", text, room, false, s) }

// part is a text below its title, in so many lines at most: its end or its beginning.
func part(title, text string, most int, end bool, s Style) (lines []string) {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if most -= 2; text == "" || most < 1 {
		return nil
	}
	if len(all) > most {
		if end {
			all = all[len(all)-most:]
		} else {
			all = all[:most]
		}
	}
	lines = append(lines, "", s.strong(title))
	for _, line := range all {
		lines = append(lines, printable.Line(line))
	}
	return lines
}

// Draw shows a Job. selected is the failure that is chosen.
func Draw(v *View, selected int, s Style) []string {
	j := v.Job
	if j == nil || v.Cells == nil {
		return s.fit([]string{"..."}, v.keys())
	}
	head := s.strong(printable.Line(j.Name)) + "  " + s.paint(hue.Of(j.State).Wide(), j.State)
	if j.Completions > 0 {
		head += fmt.Sprintf("  %d of %d succeeded", j.Counts[string(rune(picture.Succeeded))], j.Completions)
	}
	if j.Started > 0 {
		end := j.Ended
		if end == 0 {
			end = v.At / 1000
		}
		head += "  " + (time.Duration(max(0, end-j.Started)) * time.Second).String()
	}
	lines := []string{head}
	switch {
	case j.Reason != "":
		lines = append(lines, s.paint(245, printable.Line(j.Reason+": "+j.Message)))
	case v.Why != "" && j.State == batch.StateWaiting:
		lines = append(lines, s.paint(214, "waits: "+printable.Line(v.Why)))
	case j.Forecast.Brief(time.UnixMilli(v.At)) != "" && j.Ended == 0:
		lines = append(lines, s.paint(245, printable.Line(j.Forecast.Brief(time.UnixMilli(v.At)))))
	}
	lines = append(lines, chain(j.After, max(1, s.Height/4), s)...)
	legend := ""
	for _, state := range slices.Backward(worst) {
		n, l := j.Counts[string(rune(state))], looks[state]
		if n == 0 {
			continue
		}
		mark := string(rune(l.letter))
		if s.Color {
			mark = s.paint(l.colors[len(l.colors)-1], "■")
		}
		legend += fmt.Sprintf("%s %d %s  ", mark, n, l.name)
	}
	lines = append(lines, legend)
	var failures []picture.Failure
	if v.Failures != nil {
		failures = v.Failures.Groups
	}
	below := 0 // lines that failures take
	if len(failures) > 0 {
		below = min(len(failures), max(3, s.Height/4)) + 1
	}
	running := v.progress(max(1, s.Height/4))
	lines = append(lines, v.grid(s, max(1, s.Height-1-len(lines)-below-len(running)))...)
	lines = append(lines, running...)
	if len(failures) > 0 {
		lines = append(lines, "failed: exit code, indexes, last line")
		room := max(1, below-1)
		first := max(0, min(selected-room/2, len(failures)-room))
		for i := first; i < min(len(failures), first+room); i++ {
			f := &failures[i]
			code := "-"
			if f.ExitCode != nil {
				code = fmt.Sprint(*f.ExitCode)
			}
			if f.Reason != "" && f.Reason != "Error" {
				code += " " + printable.Line(f.Reason)
			}
			cells := ansi.Truncate(f.Cells, 24, "…")
			if values := v.Cells.Values; f.Cell >= 0 && f.Cell < len(values) && values[f.Cell] != "" {
				cells += " (" + printable.Line(values[f.Cell]) + ")"
			}
			if f.Final == 0 {
				cells += " (retried)"
			}
			lines = append(lines, s.chosen(s.paint(166, code)+"  "+cells+"  "+printable.Line(f.Line), i == selected))
		}
	}
	return s.fit(append(lines, v.rest(s.Height-1-len(lines), s)...), v.keys())
}

// progress has a line for each of the first pods that say how far they are.
func (v *View) progress(most int) (lines []string) {
	if v.Progress == nil {
		return nil
	}
	for i, p := range v.Progress.Pods {
		if i == most {
			break
		}
		name := printable.Line(p.Pod)
		if v.Job.Indexed {
			name = "index " + fmt.Sprint(p.Cell)
			if values := v.Cells.Values; p.Cell >= 0 && p.Cell < len(values) && values[p.Cell] != "" {
				name += " (" + printable.Line(values[p.Cell]) + ")"
			}
		}
		lines = append(lines, fmt.Sprintf("%s  %d%%  %s", name, p.Percent, printable.Line(p.Words)))
	}
	return lines
}

// grid draws the cells in so many lines at most, each of two rows of half blocks; without colours, of one row of letters.
func (v *View) grid(s Style, height int) (lines []string) {
	width, rows := max(1, s.Width-1), height
	if s.Color {
		rows *= 2
	}
	n := len(v.States)
	if n == 0 {
		return nil
	}
	per := (n + width*rows - 1) / (width * rows)
	places := (n + per - 1) / per
	at := func(place int) (look, int, bool) {
		if place >= places {
			return look{}, 0, false
		}
		rank, level := -1, 0
		for i := place * per; i < min(n, (place+1)*per); i++ {
			rank = max(rank, slices.Index(worst, v.States[i]))
			l, _ := picture.Undetail(v.Details[i])
			level = max(level, l)
		}
		if rank < 0 {
			return look{}, 0, false
		}
		return looks[worst[rank]], level, true
	}
	used := (places + width - 1) / width
	for y := 0; y < used; y++ {
		var line strings.Builder
		if !s.Color {
			for x := range width {
				if l, _, ok := at(y*width + x); ok {
					line.WriteByte(l.letter)
				}
			}
			lines = append(lines, line.String())
			continue
		}
		last := ""
		for x := range width {
			top, topLevel, ok := at(y*width + x)
			bottom, bottomLevel, also := at((y+1)*width + x)
			if !ok {
				break
			}
			paint := fmt.Sprintf("\x1b[0;38;5;%dm", top.color(topLevel))
			if also {
				paint = fmt.Sprintf("\x1b[0;38;5;%d;48;5;%dm", top.color(topLevel), bottom.color(bottomLevel))
			}
			if paint != last {
				line.WriteString(paint)
				last = paint
			}
			line.WriteString("▀")
		}
		lines = append(lines, line.String()+"\x1b[0m")
		y++
	}
	return lines
}

// textKeys are the keys of a text, as it shows them.
const textKeys = "up/down, Page Up/Down scroll  Esc back  q quit"

// Text shows a text from one of its lines on.
func Text(title, text string, from int, s Style) []string {
	lines := []string{s.strong(printable.Line(title))}
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range all[min(max(0, from), len(all)-1):] {
		lines = append(lines, printable.Line(line))
	}
	return s.fit(lines, textKeys)
}

// Note returns a line that takes the place of the keys.
func Note(text string, s Style) string {
	return ansi.Truncate(s.strong(printable.Line(text)), max(1, s.Width-1), "…")
}
