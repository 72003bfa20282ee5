package progress

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/internal/printable"
)

// Sentence returns an event as a line for people; empty if it is none for them.
func Sentence(e Event) string { return printable.Text(sentence(e)) }

func sentence(e Event) string {
	var out string
	switch e.Type {
	case "job":
		switch e.State {
		case "completing", "failing", "complete", "failed":
			return "" // the end says it
		}
		out = "job " + e.Name + ": " + e.State
		if c := e.Counts; c != nil && e.State != "created" {
			out += ": " + c.String()
		}
	case "pod":
		out = "pod " + e.Name
		if e.Index != nil {
			out += " (" + indexText(*e.Index, batch.IndexWords(e.Values)) + ")"
		}
		out += ": " + e.State
	case "jobset":
		out = "jobset " + e.Name + ": " + e.State
	case "image":
		out = "image " + e.Name + ": " + e.State
		t := Transfer{Bytes: e.Bytes, Total: e.TotalBytes, Layers: e.Layers, TotalLayers: e.TotalLayers}
		if amount := t.amount(); amount != "" {
			out += " (" + amount + ")"
		}
	case "notice":
		return e.Message
	case "end":
		return strings.Join(append([]string{e.Message}, endLines(e)...), "\n")
	default:
		return ""
	}
	if e.ExitCode != nil {
		out += fmt.Sprintf(" with exit code %d", *e.ExitCode)
	}
	if e.Seconds > 0 {
		out += " after " + short(time.Duration(e.Seconds*float64(time.Second)))
	}
	why := e.Reason
	e.Message, _, _ = strings.Cut(e.Message, " preemption: ") // says only that no other pod makes way
	if e.Message != "" && e.Message != e.Reason {
		if why != "" {
			why += ": "
		}
		why += strings.TrimSpace(e.Message)
	}
	if why != "" && why != "Error" { // the reason of every container that fails
		out += ": " + why
	}
	return out
}

// indexText names an index, with its values if it has any.
func indexText(index int, values string) string {
	if values == "" {
		return fmt.Sprintf("index %d", index)
	}
	return fmt.Sprintf("index %d: %s", index, values)
}

// endLines are the lines below the end of a Job. What its first line says of a single failure is not repeated.
func endLines(e Event) (lines []string) {
	failed := 0
	for _, f := range e.Failures {
		failed += f.Count
	}
	if c := e.Counts; c != nil && failed > 1 {
		c := *c
		c.Active, c.Failed = 0, int32(failed)
		lines = append(lines, "  "+c.String()+":")
		for _, f := range e.Failures {
			line := fmt.Sprintf("    %s: ", f.Cause)
			switch {
			case f.Indexes != "":
				line += "index " + f.Indexes
				if len(f.Values) > 0 {
					line += " (" + strings.Join(f.Values, "; ") + ")"
				}
			default:
				line += "pod " + strings.Join(f.Pods, ", ")
				if rest := f.Count - len(f.Pods); rest > 0 {
					line += fmt.Sprintf(" and %d more", rest)
				}
			}
			lines = append(lines, line)
		}
	}
	for _, command := range e.Next {
		lines = append(lines, "  $ "+command)
	}
	return lines
}

func (c Counts) String() string {
	done := fmt.Sprintf("%d succeeded", c.Succeeded)
	if c.Completions > 0 {
		done = fmt.Sprintf("%d of %d succeeded", c.Succeeded, c.Completions)
	}
	if c.Active > 0 {
		done += fmt.Sprintf(", %d active", c.Active)
	}
	if c.Failed > 0 {
		done += fmt.Sprintf(", %d failed", c.Failed)
	}
	return done
}

// short formats a duration with as much precision as people want to read.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// heldBack is how much of the logs is written at once.
const heldBack = 64 << 10

// lines writes plain lines: logs to out, and everything else to err.
type lines struct {
	mu     sync.Mutex
	out    *bufio.Writer // keeps the first error, and writes nothing after it
	err    io.Writer
	prefix bool
	color  bool // of prefixes
	quiet  bool
	keys   *keys // nil if there is nobody to ask
	open   bool  // the last line has no end yet, and may never have
	// pulls has, for each pod whose image cannot be pulled, the error that was shown last.
	pulls map[string]string
	// said maps what pods wait for to the pod for which that was shown.
	said map[string]string
}

// NewPlain returns a Display that writes logs to out and a line for each event to err. With prefix each line of a log has
// its source before it. in is where answers come from, if it is a terminal.
func NewPlain(in io.Reader, out, err io.Writer, prefix bool) Display {
	return &lines{out: bufio.NewWriterSize(out, heldBack), err: err, prefix: prefix, color: Colors(out), keys: openKeys(in)}
}

// NewQuiet returns a Display that writes logs, and of everything else no more than what must not be missed.
func NewQuiet(in io.Reader, out, err io.Writer, prefix bool) Display {
	return &lines{out: bufio.NewWriterSize(out, heldBack), err: err, prefix: prefix, color: Colors(out), quiet: true, keys: openKeys(in)}
}

func (l *lines) Event(e Event) {
	line := Sentence(e)
	if line == "" || l.quiet && e.Type != "notice" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Type == "pod" && l.sameFailedPull(e) {
		return
	}
	line = l.brief(e, line)
	_ = l.out.Flush() // the two may be the same terminal
	fmt.Fprintln(l.err, line)
}

// brief refers to another pod where that has the same to say and it is long, as when many wait for the same image.
func (l *lines) brief(e Event, line string) string {
	if e.Type != "pod" || len(e.Message) < 60 || e.ExitCode != nil {
		return line
	}
	cause := e.Message
	if _, inner, found := strings.Cut(cause, "ErrImagePull: "); found {
		cause = inner
	}
	if first := l.said[cause]; first != "" && first != e.Name {
		e.Message = ""
		return Sentence(e) + ", as pod " + first
	}
	if l.said == nil || len(l.said) > 100 {
		l.said = map[string]string{}
	}
	l.said[cause] = e.Name
	return line
}

// sameFailedPull reports whether this event of a pod only repeats why its image cannot be pulled: the state alternates
// between ErrImagePull and ImagePullBackOff for as long as the cause lasts.
func (l *lines) sameFailedPull(e Event) bool {
	cause := ""
	switch e.Reason {
	case "ErrImagePull":
		cause = e.Message
	case "ImagePullBackOff":
		_, cause, _ = strings.Cut(e.Message, "ErrImagePull: ")
	}
	if cause == "" {
		delete(l.pulls, e.Name)
		return false
	}
	if l.pulls[e.Name] == cause {
		return true
	}
	if l.pulls == nil {
		l.pulls = map[string]string{}
	}
	l.pulls[e.Name] = cause
	return false
}

func (l *lines) Log(c Chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Begins && l.open { // each line begins on a new line
		_ = l.out.WriteByte('\n')
	}
	if l.prefix && c.Begins {
		_, _ = l.out.WriteString(Labels{full: true, color: l.color}.Of(c.Source))
	}
	l.open = !c.Ends
	_, _ = l.out.Write(c.Text)
	if c.Ends {
		_ = l.out.WriteByte('\n')
	}
}

func (l *lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.out.Flush()
}

func (l *lines) Update(*Model) {}

func (l *lines) Ask(question string, answers []Answer) (string, bool) {
	if _, ok := IsTerminal(l.err); !ok || l.keys == nil {
		return "", false
	}
	l.mu.Lock()
	_ = l.out.Flush()
	fmt.Fprintf(l.err, "%s %s\n", question, choices(answers))
	l.mu.Unlock()
	return l.keys.choose(answers)
}

func (l *lines) Close() error {
	l.keys.restore()
	return l.out.Flush()
}

// objects writes lines of JSON.
type objects struct {
	mu   sync.Mutex
	out  *bufio.Writer   // keeps the first error, and writes nothing after it
	part strings.Builder // of the line that is open
	open bool
	from Source
	at   time.Time
}

// NewJSON returns a Display that writes a line of JSON for each Event, lines of logs included.
func NewJSON(out io.Writer) Display { return &objects{out: bufio.NewWriterSize(out, heldBack)} }

func (o *objects) Event(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Type == "end" {
		o.flush()
	}
	_, _ = o.out.Write(e.MarshalLine())
	_ = o.out.Flush()
}

// maxJSONLine bounds the text of one event, in bytes. A longer line of a log is several events.
const maxJSONLine = 1 << 20

func (o *objects) Log(c Chunk) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Begins {
		o.flush()
		o.from, o.at = c.Source, c.Time
	}
	o.part.Write(c.Text)
	if o.open = !c.Ends; c.Ends || o.part.Len() >= maxJSONLine {
		o.write()
	}
}

// flush writes a line that has no end.
func (o *objects) flush() {
	if o.open && o.part.Len() > 0 {
		o.write()
	}
}

func (o *objects) write() {
	c := o.from
	e := Event{
		Time: o.at, Type: "log", Name: c.Pod, Container: c.Container, Index: c.Index, Attempt: c.Attempt, Try: c.Try, Restart: c.Restart,
		Stream: c.Stream, Line: o.part.String(),
	}
	o.part.Reset()
	_, _ = o.out.Write(e.MarshalLine())
}

func (o *objects) Update(*Model)                       {}
func (o *objects) Ask(string, []Answer) (string, bool) { return "", false }
func (o *objects) Close() error                        { return o.out.Flush() }

func (o *objects) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.out.Flush()
}
