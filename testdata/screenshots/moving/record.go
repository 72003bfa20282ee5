package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jobd/jobd/testdata/rig"
)

const (
	columns, rows = 96, 22
	// often is how often the terminal is looked at.
	often = 100 * time.Millisecond
)

//go:embed sweep.yaml
var manifest []byte

// record plays the session on a daemon of its own.
func record(ctx context.Context, bin string) (*session, error) {
	dir, err := os.MkdirTemp("/var/tmp", "jobd-moving.")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	var log bytes.Buffer
	d, err := rig.New(bin, dir, &log, "--log-level", "error")
	if err != nil {
		return nil, err
	}
	defer func() {
		d.Kill()
		_ = d.Remove()
	}()
	if _, err := d.Serve(ctx); err != nil {
		return nil, fmt.Errorf("%w: %s", err, log.String())
	}
	if err := d.ImportBusybox(ctx); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "sweep.yaml"), manifest, 0o644); err != nil {
		return nil, err
	}
	t := &recorder{ctx: ctx, socket: filepath.Join(dir, "tmux"), shown: make([]string, rows), s: &session{Columns: columns, Rows: rows}}
	defer func() { _, _ = t.tmux("kill-server") }()
	if _, err := t.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "-c", dir,
		"env", "-u", "CI", "-u", "NO_COLOR", "LC_ALL=C.UTF-8", "TERM=screen-256color", "JOBD_SOCKET="+d.Socket(), "PATH="+bin+":"+os.Getenv("PATH"),
		"PS1=$ ", "sh"); err != nil {
		return nil, err
	}
	if _, err := t.tmux("set", "-g", "status", "off"); err != nil {
		return nil, err
	}
	t.begin = time.Now()
	t.types("jobctl submit -f sweep.yaml")
	t.until("jobctl retry", time.Minute)
	t.wait(4 * time.Second)
	t.types("clear")
	t.types("jobctl watch jobs/sweep")
	t.until("failed", time.Minute)
	t.wait(3 * time.Second)
	for _, key := range []string{"Down", "Up"} {
		t.keys(key)
		t.wait(2 * time.Second)
	}
	return t.s, t.err
}

// recorder types into a terminal and looks at it.
type recorder struct {
	ctx    context.Context
	socket string
	begin  time.Time
	shown  []string
	s      *session
	err    error
}

func (t *recorder) tmux(args ...string) (string, error) {
	out, err := exec.CommandContext(t.ctx, "tmux", append([]string{"-u", "-S", t.socket}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("tmux %q: %w: %s", args, err, out)
	}
	return string(out), err
}

func (t *recorder) keys(keys ...string) {
	if _, err := t.tmux(append([]string{"send-keys"}, keys...)...); err != nil && t.err == nil {
		t.err = err
	}
}

// types types a command as somebody does, and Enter.
func (t *recorder) types(command string) {
	for keys := range slices.Chunk([]byte(command), 3) {
		t.keys("-l", string(keys))
		t.look()
	}
	t.wait(3 * often)
	t.keys("Enter")
}

func (t *recorder) wait(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && t.err == nil; {
		t.look()
		time.Sleep(min(often, time.Until(end)))
	}
}

// until looks until the terminal shows something.
func (t *recorder) until(words string, most time.Duration) {
	for end := time.Now().Add(most); t.err == nil; t.wait(often) {
		if strings.Contains(strings.Join(t.shown, "\n"), words) {
			return
		}
		if time.Now().After(end) {
			t.err = fmt.Errorf("the terminal does not show %q:\n%s", words, strings.Join(t.shown, "\n"))
		}
	}
}

// look takes in what has changed on the screen.
func (t *recorder) look() {
	at := time.Since(t.begin).Milliseconds()
	screen, err := t.tmux("capture-pane", "-e", "-p")
	if err != nil {
		t.err = err
		return
	}
	f := frame{Milliseconds: int(at), Rows: map[int]string{}}
	for i, row := range rowsOf(screen) {
		if row = strings.TrimRight(row, " "); i < rows && row != t.shown[i] {
			f.Rows[i], t.shown[i] = row, row
		}
	}
	if len(f.Rows) > 0 {
		t.s.Frames = append(t.s.Frames, f)
	}
}
