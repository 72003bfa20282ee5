package nvidia

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// maxAnswer bounds how much of an answer is read: a card takes some 20 KB of it.
const maxAnswer = 32 << 20

// places are where drivers put nvidia-smi, which need not be in the PATH of a service.
var places = []string{
	"/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/run/nvidia/driver/usr/bin", "/usr/lib/wsl/lib", "/run/current-system/sw/bin", "/opt/bin",
}

// Find returns the path of nvidia-smi: the one that is given, in PATH, or where drivers put it; empty if there is none.
func Find(given string) string {
	if given != "" {
		return given
	}
	if path, err := exec.LookPath("nvidia-smi"); err == nil {
		return path
	}
	for _, dir := range places {
		path := filepath.Join(dir, "nvidia-smi")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// Asker runs nvidia-smi. It is safe for concurrent use.
type Asker struct {
	path string
	turn chan struct{} // full while one runs
}

// NewAsker makes what runs a program.
func NewAsker(path string) *Asker { return &Asker{path, make(chan struct{}, 1)} }

// Path returns that of the program.
func (a *Asker) Path() string { return a.path }

// ErrHangs says that an nvidia-smi which was started before has not ended, although it was killed: the driver does not answer.
var ErrHangs = errors.New("nvidia-smi hangs")

// Ask runs nvidia-smi and returns what it says. When ctx ends the program is killed. One that the driver keeps from ending is left
// behind, and as long as it is there no other one is started.
func (a *Asker) Ask(ctx context.Context) (*Report, error) {
	select {
	case a.turn <- struct{}{}:
	default:
		return nil, ErrHangs
	}
	type answer struct {
		report *Report
		err    error
	}
	answers := make(chan answer, 1)
	go func() { // in a goroutine of its own, since nothing ends the wait for a process in the middle of a system call
		r, err := a.run(ctx)
		<-a.turn // before the answer is given, so that who has it may ask again
		answers <- answer{r, err}
	}()
	select {
	case got := <-answers:
		return got.report, got.err
	case <-ctx.Done():
	}
	select { // the kill may well be all that it takes
	case got := <-answers:
		return got.report, got.err
	case <-time.After(killTime):
		return nil, fmt.Errorf("%w: it does not end when it is killed", ErrHangs)
	}
}

// killTime is how long a process that was killed may take to end.
const killTime = time.Second

func (a *Asker) run(ctx context.Context) (*Report, error) {
	cmd := exec.CommandContext(ctx, a.path, "-q", "-x")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killTime
	out, errs := &bounded{most: maxAnswer}, &bounded{most: 4 << 10}
	cmd.Stdout, cmd.Stderr = out, errs
	at := time.Now()
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("nvidia-smi has not answered within %s: %w", time.Since(at).Round(time.Second), ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("nvidia-smi: %s (%w)", said(out.Bytes(), errs.Bytes()), err)
	case out.cut:
		return nil, fmt.Errorf("nvidia-smi has printed more than %d bytes", maxAnswer)
	}
	r, err := Parse(out.Bytes())
	if err != nil {
		return nil, err
	}
	r.At = at
	return r, nil
}

// said returns the first line of what a program that has failed has printed. nvidia-smi says on standard output what is wrong.
func said(outs ...[]byte) string {
	for _, out := range outs {
		if line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); line != "" {
			return text(line)
		}
	}
	return "it says nothing"
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	bytes.Buffer
	most int
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if keep := b.most - b.Len(); len(p) > keep {
		b.cut = true
		b.Buffer.Write(p[:keep])
	} else {
		b.Buffer.Write(p)
	}
	return len(p), nil
}
