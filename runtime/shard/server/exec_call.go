package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/hostexec"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// execCall is a call of the OCI runtime that starts a process in a container.
type execCall struct {
	container *container
	argv      []string
	// Files of the runtime: the OCI process, the process's ID once it runs, and what the runtime says.
	process, pid, words string
	// described is the OCI process, and score what the OOM killer is to think of it.
	described []byte
	score     string
	// giving says that it is being given to the OCI runtime; opened and given are closed when that can read it, and when it has.
	giving        atomic.Bool
	opened, given chan struct{}
	// own is a copy of the shard's program, nil unless it is to be run.
	own *os.File
	// console is nil unless the process gets a terminal.
	console *console
	ends    [3]*os.File // the process's
	// ours are the daemon's ends, of which the shard keeps the last ones. They are the execution's once there is one.
	ours []*os.File
	kept int
}

// prepareExec makes everything that the OCI runtime needs.
func (c *container) prepareExec(e protocol.Exec) (_ *execCall, err error) {
	prefix := filepath.Join(c.dir, "exec-"+strconv.FormatUint(c.host.named.Add(1), 10))
	call := &execCall{
		container: c, process: prefix + ".json", pid: prefix + ".pid", words: prefix + ".log",
		opened: make(chan struct{}), given: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			call.close()
		}
	}()
	call.argv = c.runtime(call.words, "exec", "--detach", "--process", call.process, "--pid-file", call.pid)
	if e.Own {
		if err := call.takeOwn(); err != nil {
			return nil, err
		}
		e.Args = append([]string{ownProgram}, e.Args...)
	}
	if call.described, call.score, err = c.describe(e); err == nil {
		err = call.offer()
	}
	if err != nil {
		return nil, fmt.Errorf("exec in container %s: %w", c.record.ID, err)
	}
	if e.TTY {
		err = call.openTerminal()
	} else {
		err = call.openPipes(e)
	}
	if err != nil {
		return nil, err
	}
	return call, nil
}

// takeOwn has the runtime pass a copy of the shard's program on to the process.
func (x *execCall) takeOwn() (err error) {
	c := x.container
	if c.record.ForeignRuntime {
		return fmt.Errorf("exec in container %s: its OCI runtime %s passes no files on: %w", c.record.ID, c.record.Runtime, errdefs.ErrNotImplemented)
	}
	if x.own, err = sealOwn(); err != nil {
		return fmt.Errorf("exec in container %s: copy of the shard's program: %w", c.record.ID, err)
	}
	x.argv = append(x.argv, "--preserve-fds", "1")
	return nil
}

// openTerminal has the runtime make a terminal. The process says itself that it has one.
func (x *execCall) openTerminal() (err error) {
	c := x.container
	if x.console, err = c.host.listenConsole(); err != nil {
		return err
	}
	x.argv = append(x.argv, "--console-socket", x.console.path)
	if x.ends, err = nullFiles(c.null); err != nil {
		return fmt.Errorf("exec in container %s: %w", c.record.ID, err)
	}
	return nil
}

func (x *execCall) openPipes(e protocol.Exec) (err error) {
	c := x.container
	if x.ends, x.ours, err = c.execPipes(e.Stdin, e.Outlives); err != nil {
		return fmt.Errorf("exec in container %s: %w", c.record.ID, err)
	}
	if e.Outlives {
		x.kept = 2
	}
	return nil
}

// start starts the process. ended is called when it has ended.
func (x *execCall) start(ctx context.Context, ended func()) (*execution, error) {
	c := x.container
	expected := c.host.reaper.expect()
	defer expected.done()
	if err := x.run(ctx, expected); err != nil {
		return nil, err
	}
	pid, err := readPID(x.pid)
	if err != nil {
		return nil, &protocol.StartError{ID: c.record.ID, Message: "the OCI runtime left no process: " + err.Error()}
	}
	started := &execution{files: x.ours, kept: x.kept, child: child{c.host.reaper, pid}, exited: make(chan int, 1)}
	expected.claim(pid, func(status unix.WaitStatus) {
		var end protocol.Container
		fold(&end, status)
		ended()
		started.exited <- end.ExitCode
	})
	if x.console != nil {
		terminal, err := x.console.terminal()
		if err != nil {
			_ = started.child.signal(unix.SIGKILL)
			return nil, fmt.Errorf("exec in container %s: terminal: %w", c.record.ID, err)
		}
		started.files = []*os.File{terminal}
	}
	x.ours = nil
	return started, nil
}

// run runs the OCI runtime to its end, which leaves the process behind.
func (x *execCall) run(ctx context.Context, expected expectation) error {
	c := x.container
	status, _, err := c.call(ctx, expected, launch{
		argv: append(x.argv, c.record.ID), inPlace: c.record.ForeignRuntime, files: x.ends, extra: x.own, after: x.give,
	})
	x.giveUp()
	switch {
	case err != nil:
		return &protocol.StartError{ID: c.record.ID, Message: err.Error()}
	case status == 0:
		return nil
	case c.endsWithin(endsBeneath):
		return c.notRunning() // what the OCI runtime says about a container that goes away beneath it explains nothing
	}
	message := runtimeWords(x.words)
	if message == "" {
		message = c.runtimeFailure(status)
	}
	return &protocol.StartError{ID: c.record.ID, Message: message}
}

// offer makes the file from which the OCI runtime reads the process. That of crun and runc is a FIFO, since they must not go on before
// give has been there. Others may read it more than once.
func (x *execCall) offer() error {
	if x.container.record.ForeignRuntime {
		return os.WriteFile(x.process, x.described, 0o600)
	}
	return os.NewSyscallError("mkfifo", unix.Mkfifo(x.process, 0o600))
}

// give lets the OCI runtime begin. What it starts has the score for the OOM killer that the container's first process has: neither crun
// nor runc sees to that, and it would be spared as the shard is, at the cost of all others.
func (x *execCall) give(runtime int) {
	file := filepath.Join("/proc", strconv.Itoa(runtime), "oom_score_adj")
	if err := os.WriteFile(file, []byte(x.score), 0); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
		x.container.host.logger.Warn("cannot set the score of an exec for the OOM killer", "container", x.container.record.ID, "error", err)
	}
	if x.container.record.ForeignRuntime {
		return
	}
	x.giving.Store(true)
	go func() {
		defer close(x.given)
		f, err := os.OpenFile(x.process, os.O_WRONLY, 0) // waits for the reader
		close(x.opened)
		if err == nil {
			_, _ = f.Write(x.described) // the OCI runtime says what it has not understood
			f.Close()
		}
	}()
}

// giveUp ends what give waits for, once the OCI runtime has ended, which may not have read.
func (x *execCall) giveUp() {
	if !x.giving.Load() {
		return
	}
	reader, err := unix.Open(x.process, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	<-x.opened
	if err == nil {
		unix.Close(reader)
	}
	<-x.given
}

// close gives back what the call has needed, whether a process was started or not.
func (x *execCall) close() {
	protocol.CloseAll(x.ends[:])
	protocol.CloseAll(x.ours)
	if x.console != nil {
		x.console.close()
	}
	if x.own != nil {
		x.own.Close()
	}
	for _, path := range []string{x.process, x.pid, x.words} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			x.container.host.logger.Warn("cannot remove a file of an exec", "path", path, "error", err)
		}
	}
}

// describe makes the OCI process of an exec from the container's first one, and returns it with its score for the OOM killer.
func (c *container) describe(e protocol.Exec) (process []byte, score string, err error) {
	content, err := os.ReadFile(filepath.Join(c.dir, configFile))
	if err != nil {
		return nil, "", err
	}
	var config struct{ Process map[string]json.RawMessage }
	if err := json.Unmarshal(content, &config); err != nil {
		return nil, "", fmt.Errorf("spec: %w", err)
	}
	args := e.Args
	if c.record.Host != nil && !e.Own {
		var own []string
		if err := json.Unmarshal(config.Process["args"], &own); err != nil {
			return nil, "", fmt.Errorf("spec: command: %w", err)
		}
		if args, err = hostexec.Instead(own, args); err != nil {
			return nil, "", err
		}
	}
	changes := map[string]any{"args": args, "terminal": e.TTY}
	if e.TTY {
		var env []string
		if err := json.Unmarshal(config.Process["env"], &env); err != nil {
			return nil, "", fmt.Errorf("spec: environment: %w", err)
		}
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "TERM=") }) {
			changes["env"] = append(env, "TERM=xterm")
		}
	}
	delete(config.Process, "consoleSize")
	for field, value := range changes {
		if config.Process[field], err = json.Marshal(value); err != nil {
			return nil, "", err
		}
	}
	process, err = json.Marshal(config.Process)
	return process, string(config.Process["oomScoreAdj"]), err
}

// execPipes makes the streams of a process: its ends, and the daemon's. The shard may keep those of the output.
func (c *container) execPipes(stdin, kept bool) (ends [3]*os.File, ours []*os.File, err error) {
	defer func() {
		if err != nil {
			protocol.CloseAll(ends[:])
			protocol.CloseAll(ours)
		}
	}()
	if ends, err = nullFiles(c.null); err != nil {
		return ends, nil, err
	}
	for i := range ends {
		if i == 0 && !stdin {
			continue
		}
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return ends, ours, os.NewSyscallError("pipe2", err)
		}
		its, mine := 1, 0
		if i == 0 {
			its, mine = 0, 1
		}
		ends[i].Close()
		ends[i] = os.NewFile(uintptr(p[its]), "exec")
		if kept && i > 0 { // so that it can be closed while it is read
			if err := unix.SetNonblock(p[mine], true); err != nil {
				unix.Close(p[mine])
				return ends, ours, os.NewSyscallError("fcntl", err)
			}
		}
		ours = append(ours, os.NewFile(uintptr(p[mine]), "exec"))
		if err := c.record.Users.own(p[its]); err != nil {
			return ends, ours, err
		}
	}
	return ends, ours, nil
}
