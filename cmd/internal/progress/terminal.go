package progress

import (
	"bufio"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/internal/printable"
)

// IsTerminal reports whether something that is read or written is a terminal, and returns it.
func IsTerminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return nil, false
	}
	return f, term.IsTerminal(int(f.Fd()))
}

// Size returns the columns and rows of a terminal.
func Size(screen *os.File) (width, height int) {
	if width, height, err := term.GetSize(int(screen.Fd())); err == nil && width > 0 && height > 0 {
		return width, height
	}
	return 80, 24
}

const (
	frame   = 50 * time.Millisecond // between two writes
	refresh = time.Second           // between two looks at the clock
	// maxHeld is how much of the logs is held until the next frame, and how long a line may get, in bytes.
	maxHeld = 64 << 10
)

// terminal is a Display that redraws a block below the logs. Whatever it writes in one go first erases the block and then
// draws it again, so that nothing else can come between.
type terminal struct {
	screen *os.File
	logs   io.Writer // where logs go instead of above the block; nil if they go there
	plain  lines     // writes to logs
	keys   *keys
	prefix bool
	style  style

	mu      sync.Mutex
	model   *Model
	above   strings.Builder // lines that are to be written above the block
	line    []byte          // of a log, that has not ended
	from    Source          // of line
	last    []string        // the last lines of logs, where they are not above the block
	drawn   []int           // the widths of the block's lines on the screen
	asking  string
	answers []Answer // to it
	changed bool
	drawnAt time.Time

	stop chan struct{}
	done sync.WaitGroup
}

// NewTTY returns a Display that redraws a block on a terminal. Logs go to out; if that is a terminal as well, they are
// written above the block. in is where answers come from, if it is a terminal.
func NewTTY(in io.Reader, out io.Writer, screen *os.File, prefix bool) Display {
	t := &terminal{screen: screen, prefix: prefix, stop: make(chan struct{}), model: &Model{}, keys: openKeys(in)}
	if _, ok := IsTerminal(out); !ok {
		t.logs, t.plain = out, lines{out: bufio.NewWriterSize(out, heldBack), prefix: prefix}
	}
	t.style.color = Colors(screen)
	Drawable(screen)
	t.keys.quiet()
	t.done.Go(t.run)
	return t
}

func (t *terminal) run() {
	resized, continued := make(chan os.Signal, 1), make(chan os.Signal, 1)
	notifyResized(resized)
	notifyContinued(continued)
	defer signal.Stop(resized)
	defer signal.Stop(continued)
	ticker := time.NewTicker(frame)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.mu.Lock()
			if t.changed || time.Since(t.drawnAt) >= refresh {
				t.draw(true)
			}
			t.mu.Unlock()
		case <-resized:
			t.mu.Lock()
			t.draw(true)
			t.mu.Unlock()
		case <-continued:
			t.keys.quiet()
			t.mu.Lock()
			t.drawn = nil // whatever is on the screen now is not ours
			t.draw(true)
			t.mu.Unlock()
		case <-t.stop:
			return
		}
	}
}

// Sequences of a terminal.
const (
	beginSync, endSync     = "\x1b[?2026h", "\x1b[?2026l" // nothing is shown between them, where the terminal knows that
	hideCursor, showCursor = "\x1b[?25l", "\x1b[?25h"
	eraseLine, lineUp      = "\x1b[2K", "\x1b[A"
)

// draw erases the block, writes what is to be above it, and draws it again unless it is to go.
func (t *terminal) draw(withBlock bool) {
	t.style.width, t.style.height = Size(t.screen)
	var b strings.Builder
	b.WriteString(beginSync + hideCursor + "\r")
	// A terminal that has become narrower since has wrapped the lines.
	rows := -1
	for _, width := range t.drawn {
		rows += max(1, (width+t.style.width-1)/t.style.width)
	}
	// Line by line: some terminals keep what is erased to the end of the screen among what has scrolled off.
	if rows >= 0 {
		b.WriteString(eraseLine + strings.Repeat(lineUp+eraseLine, rows))
	}
	b.WriteString(strings.ReplaceAll(t.above.String(), "\n", "\r\n"))
	t.above.Reset()
	t.drawn = nil
	if withBlock {
		lines := block(t.model, time.Now(), t.last, t.style)
		if t.asking != "" {
			asked := prompt(t.asking, t.answers, t.style.width)
			lines = append(lines[:min(len(lines), max(0, t.style.height-1-len(asked)))], asked...)
		}
		b.WriteString(strings.Join(lines, "\r\n"))
		for _, l := range lines {
			t.drawn = append(t.drawn, ansi.StringWidth(l))
		}
	}
	b.WriteString(showCursor + endSync)
	_, _ = io.WriteString(t.screen, b.String())
	t.changed, t.drawnAt = false, time.Now()
}

func (t *terminal) Event(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
	switch {
	case e.Type == "notice", e.Type == "end", e.Type == "pod" && PodState(e.State) == Failed, e.Type == "job" && e.State == "created":
		text := Sentence(e)
		if e.Type != "end" {
			text = strings.ReplaceAll(text, "\n", " ")
		}
		for line := range strings.SplitSeq(text, "\n") {
			t.above.WriteString(printable.ColoredLine([]byte(line)) + "\n")
		}
	}
}

func (t *terminal) Log(c Chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.logs != nil {
		t.plain.Log(c)
	}
	if c.Begins {
		if len(t.line) > 0 { // the line before has no end
			t.endLine()
		}
		t.from = c.Source
	}
	t.line = append(t.line, c.Text...)
	if c.Ends || len(t.line) >= maxHeld {
		t.endLine()
	}
}

// Flush writes the logs that go to another place than the terminal, where they are written with each frame.
func (t *terminal) Flush() {
	if t.logs != nil {
		t.plain.Flush()
	}
}

func (t *terminal) endLine() {
	text := printable.ColoredLine(t.line)
	t.line = t.line[:0]
	t.changed = true
	if t.logs != nil {
		t.last = append(t.last, text)
		t.last = t.last[max(0, len(t.last)-maxLogLines):]
		return
	}
	t.above.WriteString(t.label() + text + "\n")
	if t.above.Len() > maxHeld {
		t.draw(true)
	}
}

// label is what stands before a line of the log.
func (t *terminal) label() string {
	j := t.model.Job()
	if j == nil {
		j = &batchv1.Job{}
	}
	return LabelsOf(j, t.prefix, t.style.color).Of(t.from)
}

func (t *terminal) Update(m *Model) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.model, t.changed = m, true
}

func (t *terminal) Ask(question string, answers []Answer) (string, bool) {
	t.mu.Lock()
	t.asking, t.answers = question, answers
	t.draw(true)
	t.mu.Unlock()
	answer, ok := t.keys.choose(answers)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking, t.changed = "", true
	return answer, ok
}

// prompt returns a question with its answers in lines that fit: all of it in one, or the answers in the next ones. No answer is
// cut off while the terminal has room for it alone.
func prompt(question string, answers []Answer, width int) (lines []string) {
	lines = []string{question}
	for i := range answers {
		one := choices(answers[i : i+1])
		last := &lines[len(lines)-1]
		if longer := *last + "  " + one; ansi.StringWidth(longer) < width {
			*last = longer
		} else {
			lines = append(lines, one)
		}
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], max(1, width-1), "…")
	}
	return lines
}

func choices(answers []Answer) string {
	var all []string
	for _, a := range answers {
		all = append(all, "["+a.Key+"] "+a.Text)
	}
	return strings.Join(all, "  ")
}

func (t *terminal) Close() error {
	close(t.stop)
	t.done.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) > 0 && t.logs == nil { // the last line has no end
		t.above.WriteString(t.label() + printable.ColoredLine(t.line) + "\n")
	}
	t.draw(false)
	t.keys.restore()
	if t.logs == nil {
		return nil
	}
	return t.plain.Close()
}

// keys are those that somebody presses at a terminal. The zero value and nil have none.
type keys struct {
	file   *os.File
	mu     sync.Mutex
	before *mode // nil unless it was changed
}

// openKeys returns the keys of a terminal; nil if it is none, or belongs to another job of the shell.
func openKeys(in any) *keys {
	f, ok := IsTerminal(in)
	if !ok {
		return nil
	}
	return &keys{file: f}
}

// set changes the mode of the terminal, unless this process runs in the background, where that would stop it.
func (k *keys) set(change func(*mode)) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := modeOf(k.file)
	if !ok {
		return
	}
	if k.before == nil {
		before := *m
		k.before = &before
	}
	change(m)
	m.set(k.file)
}

// quiet keeps keys from being shown: they would tear the block. Ctrl-C stays an interrupt.
func (k *keys) quiet() { k.set((*mode).hide) }

// choose waits for one of the keys. Ctrl-C and Ctrl-D choose the first answer.
func (k *keys) choose(answers []Answer) (string, bool) {
	if k == nil {
		return "", false
	}
	k.set((*mode).takeKeys)
	defer k.set((*mode).interrupt)
	for key := make([]byte, 1); ; {
		if n, err := k.file.Read(key); err != nil || n == 0 {
			return "", false
		}
		if key[0] == 3 || key[0] == 4 {
			return answers[0].Key, true
		}
		for _, a := range answers {
			if strings.EqualFold(string(key), a.Key) {
				return a.Key, true
			}
		}
	}
}

func (k *keys) restore() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.before != nil {
		k.before.set(k.file)
		k.before = nil
	}
}
