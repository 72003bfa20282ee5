package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/untrusted"
)

// host is what all containers of a shard share.
type host struct {
	dir      string // of the shard
	state    string // the OCI runtime's own directory
	cgroups  cgroup.Hierarchies
	reaper   *reaper
	launcher *launcher
	buffers  *logs.Buffers
	logger   *slog.Logger
	places   places
	nulls    func() (nulls, error) // made when they are first asked for
	named    atomic.Uint64         // counted, for what needs a name of its own
	// ended is called once for each end.
	ended func(protocol.Container)
}

// container is a container that a shard holds.
type container struct {
	host   *host
	dir    string
	record startRecord
	root   *overlay // of this shard's own mounting; nil without

	started chan struct{} // closed when it runs or has failed to start
	cleaned chan struct{} // closed when it has ended and all but its directory is removed, or could not be
	left    bool          // it could not be removed; set before cleaned is closed
	err     error         // set before started is closed: it was not even tried

	starting context.Context         // ends when the start is called off
	giveUp   context.CancelCauseFunc // ends it

	mu        sync.Mutex
	status    protocol.Container
	process   process // while it runs, else nil
	ran       bool    // the OCI runtime has started it, so it cannot be called off any more
	doomed    bool    // deleted or called off before it was running
	output    *output // once it has been started; nil of a terminal that is gone
	stdin     *stdin  // the same; nil without one
	attached  int     // how many are attached
	warned    bool    // signalOnce has sent a signal
	outliving int     // how many processes exec has started that outlive whoever wanted them
}

func newContainer(h *host, dir string, s protocol.Start) *container {
	starting, giveUp := context.WithCancelCause(context.Background())
	return &container{
		host: h, dir: dir, record: startRecord{Start: s}, starting: starting, giveUp: giveUp,
		started: make(chan struct{}), cleaned: make(chan struct{}),
		status: protocol.Container{ID: s.ID, State: protocol.Starting, LogPath: s.LogPath, Labels: s.Labels},
	}
}

func (c *container) current() protocol.Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// start starts the container and closes started. When the OCI runtime could not start it, it is kept as ended. After
// any other error nothing runs, and nothing is left.
func (c *container) start() {
	err := c.run()
	c.giveUp(nil)
	var failed *protocol.StartError
	switch {
	case err == nil:
		close(c.started)
	case c.isDoomed() && c.leaveNothing() == nil:
		// Whoever has called it off does not want to hear of an end.
		c.err = errCalledOff
		close(c.started)
		close(c.cleaned)
	case errors.As(err, &failed):
		end := c.current()
		end.State, end.ExitCode, end.StartError = protocol.Exited, 128, failed.Message
		end.StartedAt, end.FinishedAt = time.Now(), time.Now()
		c.finish(end)
		close(c.started)
		c.clean()
	default:
		c.host.launcher.overlays.giveBack(c.root)
		c.err = errors.Join(err, c.removeDir())
		close(c.started)
		close(c.cleaned)
	}
}

func (c *container) isDoomed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doomed
}

// leaveNothing removes everything of a container that was called off. What cannot be removed is tried again when it is
// deleted as one that could not be started.
func (c *container) leaveNothing() error {
	err := c.release()
	if err == nil {
		err = c.removeDir()
	}
	if err != nil {
		c.host.logger.Error("cannot remove what a start that was called off has left", "container", c.record.ID, "error", err)
		return err
	}
	c.host.launcher.overlays.giveBack(c.root)
	return nil
}

// callOff ends the start of the container, and reports whether it was under way.
func (c *container) callOff() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.State != protocol.Starting || c.ran {
		return false
	}
	c.doomed = true
	c.giveUp(errCalledOff)
	return true
}

// result returns the outcome of a start, once it is over.
func (c *container) result() (protocol.Container, error) {
	<-c.started
	if c.err != nil {
		return protocol.Container{}, c.err
	}
	status := c.current()
	if status.StartError != "" {
		return status, &protocol.StartError{ID: status.ID, Message: status.StartError}
	}
	return status, nil
}

func (c *container) run() error {
	config, facts, err := specOf(c.record.Start, c.host.places)
	if err != nil {
		return err
	}
	binds, nested := facts.Binds, facts.Nested
	facts.Binds, facts.Nested = nil, false                              // nothing asks for them after the start
	c.record.specFacts, c.record.Spec, c.record.Facts = facts, nil, nil // it is in the bundle now
	if err := c.makeBundle(config); err != nil {
		return err
	}
	crash.At("shard.bundle.made")
	out, err := c.openOutput()
	if err != nil {
		return err
	}
	crash.At("shard.log.opened")
	expected := c.host.reaper.expect()
	defer expected.done()
	pid, in, err := c.runRuntime(expected, out, binds, nested)
	if err != nil {
		out.close()
		return err
	}
	crash.At("shard.running")
	running := c.current()
	running.State, running.PID, running.StartedAt = protocol.Running, pid, time.Now()
	if err := writeRecord(c.dir, stateFile, running); err != nil {
		// It runs, so the start has not failed. A shard that finds it later will take it for lost.
		c.host.logger.Error("cannot record a running container", "container", c.record.ID, "error", err)
	}
	crash.At("shard.running.recorded")
	out.copy(c.host.buffers)
	expected.claim(pid, func(status unix.WaitStatus) {
		finished := time.Now()
		crash.At("shard.ended")
		<-c.started // an exit never overtakes its start
		end := c.current()
		fold(&end, status)
		end.FinishedAt = finished
		c.end(end, out)
	})
	c.mu.Lock()
	c.status, c.process, c.output, c.stdin = running, child{c.host.reaper, pid}, out, in
	doomed := c.doomed
	c.mu.Unlock()
	if doomed {
		c.kill()
	}
	return nil
}

func (c *container) makeBundle(config []byte) error {
	if err := os.Mkdir(c.dir, 0o711); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if err := os.Mkdir(filepath.Join(c.dir, rootfsDir), 0o711); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if c.record.ForeignRuntime {
		if err := os.Mkdir(c.runtimeState(), 0o711); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	if err := files.Write(filepath.Join(c.dir, configFile), config, 0o600); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return makeFIFOs(c.dir, c.fifos(), c.record.Users)
}

// fifos returns the names of the pipes that the container has.
func (c *container) fifos() []string {
	switch {
	case c.record.Terminal:
		return nil
	case c.record.Stdin:
		return []string{stdinFIFO, stdoutFIFO, stderrFIFO}
	}
	return []string{stdoutFIFO, stderrFIFO}
}

// runRuntime runs the OCI runtime to its end and returns the container's first process, which nobody has claimed by
// then. A terminal becomes the source of the output.
func (c *container) runRuntime(expected expectation, out *output, binds []protocol.Bind, nested bool) (pid int, in *stdin, err error) {
	files, in, err := c.openEnds()
	if err != nil {
		return 0, nil, err
	}
	defer protocol.CloseAll(files[:])
	defer func() {
		if err != nil && in != nil {
			in.close()
		}
	}()
	var console *console
	socket := ""
	if c.record.Terminal {
		if console, err = c.host.listenConsole(); err != nil {
			return 0, nil, fmt.Errorf("terminal: %w", err)
		}
		defer console.close()
		socket = console.path
	}
	nest := c.nested
	if c.record.ForeignRuntime || !canNest() { // what others make of a mount in another one is theirs
		nest = nil
	}
	var unrecorded error
	status, root, err := c.call(c.starting, expected, launch{
		shared:  c.record.Shared,
		pins:    c.record.Pins,
		rootfs:  filepath.Join(c.dir, rootfsDir),
		mounts:  c.record.Rootfs,
		binds:   binds,
		nest:    nest,
		nested:  nested,
		users:   c.record.Users,
		host:    c.record.Host,
		argv:    c.commandLine(socket),
		inPlace: c.record.ForeignRuntime,
		files:   files,
		// From here on, a start whose end nobody sees is in doubt. Before, it can simply be repeated.
		before: func() error {
			crash.At("shard.start.before")
			unrecorded = writeRecord(c.dir, startFile, c.record)
			crash.At("shard.start.recorded")
			return unrecorded
		},
		after: func(int) { crash.At("shard.runtime.started") },
	})
	c.root = root
	switch {
	case unrecorded != nil:
		return 0, in, unrecorded
	case err != nil:
		return 0, in, &protocol.StartError{ID: c.record.ID, Message: err.Error()}
	}
	if status != 0 {
		return 0, in, &protocol.StartError{ID: c.record.ID, Message: c.runtimeFailure(status)}
	}
	if pid, err = readPID(filepath.Join(c.dir, pidFile)); err != nil {
		return 0, in, &protocol.StartError{ID: c.record.ID, Message: "the OCI runtime left no process: " + err.Error()}
	}
	if console != nil {
		terminal, err := console.terminal()
		if err != nil {
			c.host.cgroups.Kill(c.record.Cgroup)
			return 0, in, &protocol.StartError{ID: c.record.ID, Message: "the OCI runtime left no terminal: " + err.Error()}
		}
		if out.sources[0], err = newSource(terminal); err != nil {
			c.host.cgroups.Kill(c.record.Cgroup)
			return 0, in, &protocol.StartError{ID: c.record.ID, Message: err.Error()}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doomed {
		c.host.cgroups.Kill(c.record.Cgroup)
		return 0, in, &protocol.StartError{ID: c.record.ID, Message: errCalledOff.Error()}
	}
	c.ran = true
	return pid, in, nil
}

// openEnds opens what the container gets as its standard streams, and what is kept of stdin.
func (c *container) openEnds() (files [3]*os.File, in *stdin, err error) {
	if c.record.Terminal {
		files, err = nullFiles(c.null)
		return files, nil, err
	}
	if files, err = openContainerEnds(c.dir, c.null); err != nil || !c.record.Stdin {
		return files, nil, err
	}
	files[0].Close()
	if in, files[0], err = openStdin(stdinPath(c.dir), c.record.StdinOnce); err != nil {
		protocol.CloseAll(files[1:])
	}
	return files, in, err
}

// null opens what the container gets in the place of a stream that it does not have.
func (c *container) null() (*os.File, error) {
	n, err := c.host.nulls()
	if err != nil {
		return nil, err
	}
	return n.open(strconv.FormatUint(c.host.named.Add(1), 10), c.record.Users)
}

// readPID reads the process ID that an OCI runtime wrote.
func readPID(path string) (int, error) {
	content, err := files.Read(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(bytes.TrimSpace(content)))
}

func (c *container) runtimeFailure(status unix.WaitStatus) string {
	if words := runtimeWords(filepath.Join(c.dir, runtimeLog)); words != "" {
		return words
	}
	if status.Signaled() {
		return fmt.Sprintf("%s was killed by signal %d (%s)", c.record.Runtime, status.Signal(), status.Signal())
	}
	return fmt.Sprintf("%s failed with exit code %d", c.record.Runtime, status.ExitStatus())
}

// end is called once the first process of a container that ran has ended.
func (c *container) end(end protocol.Container, out *output) {
	end.OOMKilled = c.host.cgroups.OOMKills(c.record.Cgroup) > 0
	// The first process is the container: what it leaves in a shared PID namespace is killed, which closes its ends of
	// the output.
	c.host.cgroups.Kill(c.record.Cgroup)
	c.noteUsage(&end)
	if err := out.drain(); err != nil {
		end.LogError = err.Error()
		c.host.logger.Error("cannot write the whole log", "container", c.record.ID, "error", err)
	}
	crash.At("shard.log.complete")
	out.close()
	c.mu.Lock()
	if c.stdin != nil {
		c.stdin.close()
	}
	c.mu.Unlock()
	c.finish(end)
	c.clean()
}

// noteUsage notes what the container has used, while its control group still exists.
func (c *container) noteUsage(end *protocol.Container) {
	end.CPUTime, end.PeakMemory = c.host.cgroups.Used(c.record.Cgroup)
}

// finish records how the container ended and reports it.
func (c *container) finish(end protocol.Container) {
	if end.FinishedAt.Before(end.StartedAt) { // it was faster than the OCI runtime that started it
		end.FinishedAt = end.StartedAt
	}
	if c.record.MessagePath != "" {
		message, err := readMessage(c.record.MessagePath)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.host.logger.Error("cannot read the termination message", "container", c.record.ID, "error", err)
		}
		end.Message = message
	}
	if err := writeRecord(c.dir, stateFile, end); err != nil {
		c.host.logger.Error("cannot record an exit", "container", c.record.ID, "error", err)
	}
	crash.At("shard.exit.recorded")
	c.mu.Lock()
	c.status, c.process = end, nil
	c.mu.Unlock()
	c.host.ended(end)
	crash.At("shard.exit.told")
}

// readMessage returns the last MaxMessage bytes of a termination message file.
func readMessage(path string) (string, error) {
	f, err := untrusted.Open(filepath.Dir(path), filepath.Base(path), untrusted.Beneath)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-protocol.MaxMessage), protocol.MaxMessage))
	return string(content), err
}

// clean removes what an ended container has on the host, except for its directory. It runs after the exit was reported,
// since nobody has to wait for it.
func (c *container) clean() {
	defer close(c.cleaned)
	if err := c.release(); err != nil {
		c.host.logger.Error("cannot remove what a container has left", "container", c.record.ID, "error", err)
		c.left = true
		c.root.close()
		return
	}
	c.host.launcher.overlays.giveBack(c.root)
}

// release removes control groups and the OCI runtime's state. The runtime itself is run only where it has hooks to run, or
// where nobody else knows what it has left.
func (c *container) release() error {
	state := c.runtimeState()
	if _, err := os.Lstat(state); err == nil && c.deletedByRuntime() {
		if err := c.runtimeCommand("delete", "--force", c.record.ID); err != nil {
			c.host.logger.Error("cannot have the OCI runtime delete a container", "container", c.record.ID,
				"runtime", c.record.Runtime, "error", err)
		}
	}
	crash.At("shard.cgroup.before")
	err := c.host.cgroups.Remove(c.record.Cgroup)
	crash.At("shard.cgroup.after")
	return errors.Join(err, os.RemoveAll(state))
}

// deletedByRuntime reports whether the OCI runtime itself is run when the container has ended.
func (c *container) deletedByRuntime() bool { return c.record.PostStop || c.record.ForeignRuntime }

// signal sends a signal to the first process, or with all to every one.
func (c *container) signal(sig unix.Signal, all bool) error {
	c.mu.Lock()
	state, process := c.status.State, c.process
	c.mu.Unlock()
	switch {
	case state == protocol.Starting:
		return fmt.Errorf("container %s is being started: %w", c.record.ID, errdefs.ErrFailedPrecondition)
	case state.Ended():
		return fmt.Errorf("container %s has ended: %w", c.record.ID, errdefs.ErrNotFound)
	case c.record.ForeignRuntime && sig != unix.SIGKILL:
		return c.foreignSignal(sig, all)
	case all:
		if sig == unix.SIGKILL {
			process.killed()
		}
		if c.host.cgroups.Signal(c.record.Cgroup, sig) == 0 {
			return fmt.Errorf("container %s has no process: %w", c.record.ID, errdefs.ErrNotFound)
		}
		return nil
	}
	if err := process.signal(sig); err != nil {
		return fmt.Errorf("signal container %s: %w", c.record.ID, err)
	}
	return nil
}

// signalOnce sends a signal to the first process unless it has done so before. It is this shard that knows, since the container
// outlives every daemon, and not the shard.
func (c *container) signalOnce(sig unix.Signal) error {
	c.mu.Lock()
	had := c.warned
	c.warned = true
	c.mu.Unlock()
	if had {
		return nil
	}
	err := c.signal(sig, false)
	if err != nil {
		c.mu.Lock()
		c.warned = false
		c.mu.Unlock()
	}
	return err
}

// foreignSignal asks an OCI runtime to send a signal: what runs in the container need not be a process of this host.
func (c *container) foreignSignal(sig unix.Signal, all bool) error {
	command := []string{"kill"}
	if all {
		command = append(command, "--all")
	}
	err := c.runtimeCommand(append(command, c.record.ID, strconv.Itoa(int(sig)))...)
	if err != nil && c.current().State.Ended() {
		return fmt.Errorf("container %s has ended: %w", c.record.ID, errdefs.ErrNotFound)
	} else if err != nil {
		return fmt.Errorf("signal container %s: %w", c.record.ID, err)
	}
	return nil
}

// kill ends a container, whatever its state.
func (c *container) kill() {
	c.mu.Lock()
	c.doomed = true
	c.giveUp(errCalledOff)
	state, process := c.status.State, c.process
	c.mu.Unlock()
	if process != nil {
		_ = process.signal(unix.SIGKILL) // it may have ended just now
	}
	if state == protocol.Running {
		c.host.cgroups.Kill(c.record.Cgroup)
	}
}

// remove ends a container if need be and removes everything of it.
func (c *container) remove(ctx context.Context) error {
	if !c.current().State.Ended() {
		c.kill()
	}
	select {
	case <-c.cleaned:
	case <-ctx.Done():
		return fmt.Errorf("container %s does not end: %w", c.record.ID, errdefs.ErrUnavailable)
	}
	if c.err != nil {
		return nil // its start has removed it, and may have been repeated since
	}
	if c.left {
		if err := c.release(); err != nil {
			return fmt.Errorf("remove container %s: %w", c.record.ID, err)
		}
	}
	return c.removeDir()
}

// removeDir removes the container's directory, its start record last. The mount point is removed as an empty directory
// or not at all: what is mounted there, if anything, is not ours to delete.
func (c *container) removeDir() error {
	if err := unix.Rmdir(filepath.Join(c.dir, rootfsDir)); err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove bundle %s: %w", c.dir, err)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove bundle: %w", err)
	}
	for _, e := range entries {
		if e.Name() == startFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.dir, e.Name())); err != nil {
			return fmt.Errorf("remove bundle: %w", err)
		}
	}
	crash.At("shard.remove.emptied")
	for _, err := range []error{unix.Unlink(filepath.Join(c.dir, startFile)), unix.Rmdir(c.dir)} {
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("remove bundle %s: %w", c.dir, err)
		}
	}
	return nil
}
