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
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// execution is the shard's side of a process that an exec has started: it starts the process and reports how it ends.
// What goes in and out does not pass through the shard: files are the daemon's ends of the streams, and are sent to it.
type execution struct {
	files  []*os.File // the terminal; or stdin, if asked for, stdout and stderr
	child  child
	exited chan int
	// kept is how many of the files, the last ones, the shard has to keep: what is read from them when the daemon has hung up.
	kept int
}

const (
	// maxOutliving is how many processes may run in a container that outlive whoever has started them. A kubelet has no such
	// bound, but there they take what they use from the container, while here the shard holds two files for each.
	maxOutliving = 256
	// dropPause is how long it takes at least to drop a piece of output that nobody is there for: a process that writes without
	// end is held back, instead of using a processor for ever.
	dropPause = 10 * time.Millisecond
)

// admitExec counts another process that outlives its client, unless there are too many. release has an effect only once.
func (c *container) admitExec() (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outliving >= maxOutliving {
		return nil, fmt.Errorf("exec in container %s: %d processes run there that exec has started, and more are not allowed: %w",
			c.record.ID, maxOutliving, errdefs.ErrResourceExhausted)
	}
	c.outliving++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.outliving--
	}), nil
}

// exec starts a process in the container and returns when it runs. The error is a *StartError when the OCI runtime
// could not start it. When ctx ends first, the OCI runtime is killed.
func (c *container) exec(ctx context.Context, e protocol.Exec) (_ *execution, err error) {
	if len(e.Args) == 0 {
		return nil, fmt.Errorf("exec of nothing in container %s: %w", c.record.ID, errdefs.ErrInvalidArgument)
	}
	notRunning := fmt.Errorf("exec in container %s: it does not run: %w", c.record.ID, errdefs.ErrNotFound)
	if c.current().State != protocol.Running {
		return nil, notRunning
	}
	release := func() {}
	if e.Outlives {
		if release, err = c.admitExec(); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	var own *os.File
	if e.Own {
		if c.record.ForeignRuntime {
			return nil, fmt.Errorf("exec in container %s: its OCI runtime %s passes no files on: %w", c.record.ID, c.record.Runtime, errdefs.ErrNotImplemented)
		}
		if own, err = sealOwn(); err != nil {
			return nil, fmt.Errorf("exec in container %s: copy of the shard's program: %w", c.record.ID, err)
		}
		defer own.Close()
		e.Args = append([]string{ownProgram}, e.Args...)
	}
	prefix := filepath.Join(c.dir, "exec-"+strconv.FormatUint(c.host.named.Add(1), 10))
	process, pids, words := prefix+".json", prefix+".pid", prefix+".log"
	defer func() {
		for _, path := range []string{process, pids, words} {
			if failed := os.Remove(path); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
				c.host.logger.Warn("cannot remove a file of an exec", "path", path, "error", failed)
			}
		}
	}()
	if err := c.writeProcess(process, e); err != nil {
		return nil, fmt.Errorf("exec in container %s: %w", c.record.ID, err)
	}
	argv := c.runtime(words, "exec", "--detach", "--process", process, "--pid-file", pids)
	if own != nil {
		argv = append(argv, "--preserve-fds", "1")
	}

	var ends [3]*os.File // the process's
	x := &execution{exited: make(chan int, 1)}
	defer func() {
		protocol.CloseAll(ends[:])
		if err != nil {
			protocol.CloseAll(x.files)
		}
	}()
	var console *console
	if e.TTY {
		if console, err = c.host.listenConsole(); err != nil {
			return nil, err
		}
		defer console.close()
		argv = append(argv, "--console-socket", console.path) // the process says itself that it has a terminal
		ends, err = nullFiles(c.null)
	} else {
		ends, x.files, err = c.execPipes(e.Stdin, e.Outlives)
		if e.Outlives {
			x.kept = 2
		}
	}
	if err != nil {
		return nil, fmt.Errorf("exec in container %s: %w", c.record.ID, err)
	}

	expected := c.host.reaper.expect()
	defer expected.done()
	status, _, err := c.call(ctx, expected, launch{
		argv: append(argv, c.record.ID), inPlace: c.record.ForeignRuntime, files: ends, extra: own,
	})
	if err != nil {
		return nil, &protocol.StartError{ID: c.record.ID, Message: err.Error()}
	}
	if status != 0 && c.endsWithin(endsBeneath) {
		return nil, notRunning // what the OCI runtime says about a container that goes away beneath it explains nothing
	}
	if status != 0 {
		message := runtimeWords(words)
		if message == "" {
			message = c.runtimeFailure(status)
		}
		return nil, &protocol.StartError{ID: c.record.ID, Message: message}
	}
	pid, err := readPID(pids)
	if err != nil {
		return nil, &protocol.StartError{ID: c.record.ID, Message: "the OCI runtime left no process: " + err.Error()}
	}
	x.child = child{c.host.reaper, pid}
	expected.claim(pid, func(status unix.WaitStatus) {
		var end protocol.Container
		fold(&end, status)
		release()
		x.exited <- end.ExitCode
	})
	if console != nil {
		terminal, err := console.terminal()
		if err != nil {
			_ = x.child.signal(unix.SIGKILL)
			return nil, fmt.Errorf("exec in container %s: terminal: %w", c.record.ID, err)
		}
		x.files = []*os.File{terminal}
	}
	return x, nil
}

// endsBeneath is how long after the failure of an exec the end of the container may become known that was its cause.
const endsBeneath = 50 * time.Millisecond

// endsWithin reports whether the container's process has ended, or does so soon.
func (c *container) endsWithin(limit time.Duration) bool {
	for until := time.Now().Add(limit); ; time.Sleep(limit / 10) {
		c.mu.Lock()
		ended := c.process == nil || errdefs.IsNotFound(c.process.signal(0))
		c.mu.Unlock()
		if ended || time.Now().After(until) {
			return ended
		}
	}
}

// writeProcess makes the OCI process of an exec from the container's first one.
func (c *container) writeProcess(path string, e protocol.Exec) error {
	content, err := os.ReadFile(filepath.Join(c.dir, configFile))
	if err != nil {
		return err
	}
	var config struct{ Process map[string]json.RawMessage }
	if err := json.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	changes := map[string]any{"args": e.Args, "terminal": e.TTY}
	if e.TTY {
		var env []string
		if err := json.Unmarshal(config.Process["env"], &env); err != nil {
			return fmt.Errorf("spec: environment: %w", err)
		}
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "TERM=") }) {
			changes["env"] = append(env, "TERM=xterm")
		}
	}
	delete(config.Process, "consoleSize")
	for field, value := range changes {
		if config.Process[field], err = json.Marshal(value); err != nil {
			return err
		}
	}
	if content, err = json.Marshal(config.Process); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
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

// hostNull opens the host's own /dev/null, for containers in its user namespace.
func hostNull() (*os.File, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
}

func nullFiles(null func() (*os.File, error)) (files [3]*os.File, err error) {
	for i := range files {
		if files[i], err = null(); err != nil {
			protocol.CloseAll(files[:])
			return files, err
		}
	}
	return files, nil
}

// serveExec answers a request for an exec, on a connection of its own, with the ends of the streams, and reports how
// the process ended. When the daemon hangs up before that, the process is killed, or else outlives it.
func (s *Server) serveExec(p *peer, m *protocol.Message) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	outlives := m.Exec != nil && m.Exec.Outlives
	if !outlives {
		go func() {
			select {
			case <-p.gone:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	x, err := s.exec(ctx, m)
	reply := &protocol.Message{Op: protocol.OpReply, Seq: m.Seq}
	if err != nil {
		reply.Error = protocol.EncodeError(err)
		p.send(reply)
		return
	}
	p.sendFiles(reply, x.files)
	sent := len(x.files) - x.kept
	protocol.CloseAll(x.files[:sent])
	defer protocol.CloseAll(x.files[sent:])
	select {
	case code := <-x.exited:
		p.send(&protocol.Message{Op: protocol.OpExecExit, ExitCode: code})
		return
	case <-p.gone:
	}
	if !outlives {
		_ = x.child.signal(unix.SIGKILL) // it may have ended just now
		return
	}
	for _, output := range x.files[sent:] {
		go drop(output, s.host.buffers)
	}
	<-x.exited
}

// drop reads what a process writes when nobody is there for it any more, until the file is closed: the process neither waits for
// a reader for ever nor is told by a signal that it has lost one.
func drop(output *os.File, buffers *logs.Buffers) {
	conn, err := output.SyscallConn()
	if err != nil {
		return
	}
	for ; ; time.Sleep(dropPause) {
		n := 0
		failed := conn.Read(func(fd uintptr) bool {
			buffer := buffers.Get(false) // only while there is something to be read
			defer buffers.Put(buffer)
			n, err = unix.Read(int(fd), *buffer)
			return err != unix.EAGAIN
		})
		if failed != nil || n <= 0 && err != unix.EINTR {
			return
		}
	}
}

func (s *Server) exec(ctx context.Context, m *protocol.Message) (*execution, error) {
	if m.Exec == nil {
		return nil, fmt.Errorf("exec of nothing: %w", errdefs.ErrInvalidArgument)
	}
	c, err := s.find(m.ID)
	if err != nil {
		return nil, err
	}
	return c.exec(ctx, *m.Exec)
}
