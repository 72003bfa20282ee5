package server

import (
	"context"
	"fmt"
	"os"
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
	if c.current().State != protocol.Running {
		return nil, c.notRunning()
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
	call, err := c.prepareExec(e)
	if err != nil {
		return nil, err
	}
	defer call.close()
	return call.start(ctx, release)
}

func (c *container) notRunning() error {
	return fmt.Errorf("exec in container %s: it does not run: %w", c.record.ID, errdefs.ErrNotFound)
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

// hostNull opens the host's own /dev/null, for what runs on the host only.
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
