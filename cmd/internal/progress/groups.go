package progress

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// CI is a system whose logs have groups of lines that can be folded.
type CI string

// The systems that are known.
const (
	NoCI   CI = ""
	GitHub CI = "github"
	GitLab CI = "gitlab"
)

// DetectCI finds out from the environment in which system a command runs.
func DetectCI(getenv func(string) string) CI {
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		return GitHub
	case getenv("GITLAB_CI") == "true":
		return GitLab
	}
	return NoCI
}

// begin and end return what begins and ends a group.
func (c CI) begin(id, title string, at time.Time) string {
	if c == GitLab {
		return fmt.Sprintf("\x1b[0Ksection_start:%d:%s[collapsed=true]\r\x1b[0K%s\n", at.Unix(), id, title)
	}
	return "::group::" + title + "\n"
}

func (c CI) end(id string, at time.Time) string {
	if c == GitLab {
		return fmt.Sprintf("\x1b[0Ksection_end:%d:%s\r\x1b[0K\n", at.Unix(), id)
	}
	return "::endgroup::\n"
}

// groups is a Display with plain lines in which the logs of each pod are a group. The logs of one pod are written as they
// come; those of pods that run beside it are kept in files until it has ended. Groups are folded, so failures and notices
// are outside: the open group ends there, and what else comes of it is another one.
type groups struct {
	Display // for everything but logs
	ci      CI
	out     *bufio.Writer // keeps the first error, and writes nothing after it

	mu     sync.Mutex
	failed error  // of a file in which logs are kept
	open   *group // the one that is being written
	queue  []*group
	byName map[string]*group
	held   []Event // that wait for the end of a line, to be shown outside of the open group
	n      int
}

type group struct {
	pod    string
	title  string
	spool  *os.File // what has come while it could not be written; nil if nothing has
	over   bool     // the pod has ended
	middle bool     // of a line
	parts  int      // how often it was begun
}

// NewGroups returns a Display that writes plain lines, and the logs of each pod as a group.
func NewGroups(ci CI, in io.Reader, out, err io.Writer) Display {
	return &groups{Display: NewPlain(in, out, err, false), ci: ci, out: bufio.NewWriterSize(out, heldBack), byName: map[string]*group{}}
}

func (g *groups) Event(e Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if of := g.byName[e.Name]; of != nil && e.Type == "pod" && PodState(e.State).over() {
		of.over = true
	}
	failure := e.Type == "notice" || e.Type == "pod" && PodState(e.State) == Failed
	switch {
	case e.Type == "end":
		g.finishAll()
	case failure && g.open != nil && g.open.middle:
		g.held = append(g.held, e)
		return
	case failure && g.open != nil:
		g.interrupt()
	}
	_ = g.out.Flush() // the two may be the same terminal
	g.Display.Event(e)
}

func (g *groups) Log(c Chunk) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.byName[c.Pod]
	if of == nil {
		of = &group{pod: c.Pod, title: "pod " + c.Pod}
		if c.Index != nil {
			of.title += " (" + indexText(*c.Index, c.Values) + ")"
		}
		g.byName[c.Pod] = of
	}
	if g.open != of && !slices.Contains(g.queue, of) { // its first line, or the rest of a group that is closed
		g.queue = append(g.queue, of)
	}
	if g.open != nil && g.open != of && g.open.over {
		g.finish()
	}
	for g.open == nil {
		i := slices.IndexFunc(g.queue, func(next *group) bool { return next == of || next.spool != nil })
		next := g.queue[i]
		g.queue = slices.Delete(g.queue, i, i+1)
		g.begin(next)
		if next != of && next.over {
			g.finish()
		}
	}
	to := io.Writer(g.out)
	if g.open != of {
		if of.spool == nil {
			f, err := os.CreateTemp("", "jobctl-log-")
			if err != nil { // out of order is better than not at all
				g.keep(of.write(g.out, c))
				return
			}
			_ = os.Remove(f.Name())
			of.spool = f
		}
		to = of.spool
	}
	g.keep(of.write(to, c))
	if g.open == of && !of.middle && len(g.held) > 0 {
		g.interrupt()
	}
}

// interrupt closes the open group for something that is to be seen, and lets it go on later.
func (g *groups) interrupt() {
	if !g.open.over {
		g.queue = slices.Insert(g.queue, 0, g.open)
	}
	g.finish()
}

func (g *groups) Flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.out.Flush()
}

// keep remembers the first error.
func (g *groups) keep(err error) { g.failed = cmp.Or(g.failed, err) }

func (of *group) write(to io.Writer, c Chunk) error {
	_, err := to.Write(c.Text)
	if of.middle = !c.Ends; c.Ends && err == nil {
		_, err = io.WriteString(to, "\n")
	}
	return err
}

// begin opens a group and writes what has come of it.
func (g *groups) begin(of *group) {
	g.open = of
	title := of.title
	if of.parts++; of.parts > 1 {
		title += ", continued"
	}
	g.n++
	_, _ = io.WriteString(g.out, g.ci.begin(fmt.Sprint("pod_", g.n), title, time.Now()))
	if of.spool == nil {
		return
	}
	_, err := of.spool.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(g.out, of.spool)
	}
	g.keep(err)
	_ = of.spool.Close()
	of.spool = nil
}

// finish closes the open group.
func (g *groups) finish() {
	if g.open.middle {
		_, _ = io.WriteString(g.out, "\n")
	}
	_, _ = io.WriteString(g.out, g.ci.end(fmt.Sprint("pod_", g.n), time.Now()))
	g.open.middle, g.open = false, nil
	if len(g.held) == 0 {
		return
	}
	_ = g.out.Flush()
	for _, e := range g.held {
		g.Display.Event(e)
	}
	g.held = nil
}

// finishAll closes the open group and writes all that wait.
func (g *groups) finishAll() {
	for g.open != nil || len(g.queue) > 0 {
		if g.open != nil {
			g.finish()
			continue
		}
		next := g.queue[0]
		g.queue = g.queue[1:]
		if next.parts == 0 || next.spool != nil { // else it was interrupted, and nothing has come since
			g.begin(next)
		}
	}
}

func (g *groups) Close() error {
	g.mu.Lock()
	g.finishAll()
	g.keep(g.out.Flush())
	g.mu.Unlock()
	return cmp.Or(g.failed, g.Display.Close())
}
