package shard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Process is a process that Exec has started in a container, or the container's first one, as Attach returns it.
type Process struct {
	// Attached says which streams the container has, if this is a process that was attached to.
	Attached protocol.Attached
	// Stdin is nil unless it was asked for and exists. With a terminal there is no Stderr.
	Stdin, Stdout, Stderr *os.File

	conn     *net.UnixConn
	terminal *os.File      // nil without one
	end      chan struct{} // closed when code or err is set
	code     int
	err      error

	mu      sync.Mutex
	closed  bool
	release func() bool // detaches it from the context that it ends with
}

// startProcess starts a process over a connection of its own.
func startProcess(ctx context.Context, socket, id string, e protocol.Exec) (*Process, error) {
	request := protocol.Message{Op: protocol.OpExec, ID: id, Exec: &e}
	return openProcess(ctx, socket, request, func(p *Process, _ protocol.Message, files *[]*os.File) {
		if e.TTY {
			p.terminal = take(files)
			p.Stdin, p.Stdout = p.terminal, p.terminal
			return
		}
		if e.Stdin {
			p.Stdin = take(files)
		}
		p.Stdout, p.Stderr = take(files), take(files)
	})
}

// attachProcess attaches to the first process of a container over a connection of its own.
func attachProcess(ctx context.Context, socket, id string, a protocol.Attach) (*Process, error) {
	request := protocol.Message{Op: protocol.OpAttach, ID: id, Attach: &a}
	return openProcess(ctx, socket, request, func(p *Process, reply protocol.Message, files *[]*os.File) {
		if reply.Attached == nil {
			return
		}
		p.Attached = *reply.Attached
		switch {
		case p.Attached.Terminal:
			p.terminal = take(files)
			if p.Attached.Stdin {
				p.Stdin = p.terminal
			}
		case p.Attached.Stdin:
			p.Stdin = take(files)
		}
		if p.Attached.Stdout {
			p.Stdout = take(files)
		}
		if p.Attached.Stderr {
			p.Stderr = take(files)
		}
	})
}

// take takes the first of the files that are left; nil when there is none.
func take(files *[]*os.File) *os.File {
	if len(*files) == 0 {
		return nil
	}
	f := (*files)[0]
	*files = (*files)[1:]
	return f
}

const (
	// drainTime is how long Copy waits, after the end of a process, for others that hold its output open.
	drainTime = time.Second
	// drainBytes bounds how much of that output is read afterwards: more than a pipe holds.
	drainBytes = 2 << 20
)

var errNotReached = errors.New("connect to shard")

// placing takes the files that came with a reply, and puts them where they belong in a process.
type placing func(p *Process, reply protocol.Message, files *[]*os.File)

// openProcess makes a request that is answered with open files, which place has to take.
func openProcess(ctx context.Context, socket string, request protocol.Message, place placing) (*Process, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", errNotReached, errdefs.ErrUnavailable, err)
	}
	p := &Process{conn: conn.(*net.UnixConn), end: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	r, err := p.open(request, place)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		p.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	p.mu.Lock()
	p.release = context.AfterFunc(ctx, p.Close)
	p.mu.Unlock()
	go p.await(ctx, r)
	return p, nil
}

// open makes the request and takes the streams. What comes after the answer is in the reader.
func (p *Process) open(request protocol.Message, place placing) (io.Reader, error) {
	frame, err := protocol.Encode(&request, nil)
	if err != nil {
		return nil, err
	}
	if _, err := p.conn.Write(frame); err != nil {
		return nil, fmt.Errorf("ask shard to %s: %w: %w", request.Op, errdefs.ErrUnavailable, err)
	}
	buffer := make([]byte, 4<<10)
	n, files, err := protocol.ReadFiles(p.conn, buffer)
	if err != nil {
		protocol.CloseAll(files)
		return nil, fmt.Errorf("connection to shard: %w: %w", errdefs.ErrUnavailable, err)
	}
	r := bufio.NewReader(io.MultiReader(bytes.NewReader(buffer[:n]), p.conn))
	reply, _, err := protocol.Decode(r)
	if err != nil {
		protocol.CloseAll(files)
		return nil, fmt.Errorf("connection to shard: %w: %w", errdefs.ErrUnavailable, err)
	}
	if reply.Error != nil {
		protocol.CloseAll(files)
		return nil, protocol.DecodeError(reply.Error)
	}
	sent := len(files)
	place(p, reply, &files)
	if len(files) > 0 || p.streams() != sent {
		protocol.CloseAll(files)
		return nil, fmt.Errorf("shard sent %d streams: %w", sent, errdefs.ErrUnknown)
	}
	return r, nil
}

// streams returns how many files the process has.
func (p *Process) streams() int {
	n := 0
	for _, f := range p.files() {
		if f != nil {
			n++
		}
	}
	return n
}

// files returns all the files that the process has, each once.
func (p *Process) files() []*os.File {
	if p.terminal == nil {
		return []*os.File{p.Stdin, p.Stdout, p.Stderr}
	}
	if p.Stdout == p.terminal {
		return []*os.File{p.terminal}
	}
	return []*os.File{p.terminal, p.Stdout}
}

func (p *Process) await(ctx context.Context, r io.Reader) {
	defer close(p.end)
	m, _, err := protocol.Decode(r)
	switch {
	case err != nil && ctx.Err() != nil:
		p.err = ctx.Err() // which is why the connection was closed
	case err != nil:
		p.err = fmt.Errorf("connection to shard: %w: %w", errdefs.ErrUnavailable, err)
	case m.Op != protocol.OpExecExit:
		p.err = fmt.Errorf("shard sent %q for the end of a process: %w", m.Op, errdefs.ErrUnknown)
	default:
		p.code, p.err = m.ExitCode, protocol.DecodeError(m.Error)
	}
}

// Wait returns the exit code, once the process has ended: 128+n when signal n ended it. Its output may not have been
// read yet. For a process that was attached to, Wait reports only the end, once everything was read. The error is
// errdefs.ErrUnavailable when the shard died, after which the process may live until its container ends, and that of
// the context passed to Exec or Attach when the end of that context has closed the Process.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.end:
		return p.code, p.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Resize sets the size of a terminal, in characters.
func (p *Process) Resize(width, height uint16) error {
	if p.terminal == nil {
		return fmt.Errorf("resize: there is no terminal: %w", errdefs.ErrInvalidArgument)
	}
	conn, err := p.terminal.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
	})
	return errors.Join(err, failed)
}

// Copy copies what the process writes to one of its streams to a writer, until the stream ends, which is at most a
// second after the process does, even if others still have the stream open. What was written before is not lost.
func (p *Process) Copy(w io.Writer, stream *os.File) error {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-done:
			return
		case <-p.end:
		}
		select {
		case <-done:
		case <-time.After(drainTime):
			stream.SetReadDeadline(time.Unix(1, 0))
		}
	}()
	_, err := io.Copy(w, onlyReader{stream})
	switch {
	case errors.Is(err, unix.EIO) && stream == p.terminal, errors.Is(err, os.ErrClosed):
		return nil // nobody has the terminal open any more
	case errors.Is(err, os.ErrDeadlineExceeded):
		_, err = w.Write(rest(stream))
	}
	return err
}

type onlyReader struct{ io.Reader }

// rest returns what a stream holds at this moment.
func rest(stream *os.File) []byte {
	var found []byte
	conn, err := stream.SyscallConn()
	if err != nil {
		return nil
	}
	_ = conn.Control(func(fd uintptr) {
		buffer := make([]byte, 32<<10)
		for len(found) < drainBytes {
			n, err := unix.Read(int(fd), buffer)
			if err == unix.EINTR {
				continue
			}
			if err != nil || n <= 0 {
				return
			}
			found = append(found, buffer[:n]...)
		}
	})
	return found
}

// takenPause is between two looks at what was typed at a terminal.
const takenPause = 10 * time.Millisecond

// Taken waits until the process has read what was written to its terminal, or ctx ends. When the terminal hangs up, what was not
// read is lost.
func (p *Process) Taken(ctx context.Context) {
	for ctx.Err() == nil {
		if left, err := p.unread(); err != nil || left == 0 { // an error: it has hung up already
			return
		}
		time.Sleep(takenPause)
	}
}

// unread returns how many bytes wait in a terminal for its process.
func (p *Process) unread() (n int, err error) {
	if p.terminal == nil {
		return 0, nil
	}
	conn, err := p.terminal.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := conn.Control(func(fd uintptr) {
		// Only the other side knows, which is in the container.
		other, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC)
		if errno != 0 {
			err = errno
			return
		}
		defer unix.Close(int(other))
		// What is written here is on its way there for a while, in no count; the kernel ends that before it answers whether there is something.
		if _, err = unix.Poll([]unix.PollFd{{Fd: int32(other), Events: unix.POLLIN}}, 0); err == nil || errors.Is(err, unix.EINTR) {
			n, err = unix.IoctlGetInt(int(other), unix.TIOCINQ)
		}
	})
	return n, errors.Join(failed, err)
}

// Close releases the process. One that Exec has started and that has not ended is killed by its shard, unless it was to outlive
// that: it goes on, at the end of its input, or without its terminal.
func (p *Process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if p.release != nil {
		p.release()
	}
	p.conn.Close()
	protocol.CloseAll(p.files())
}
