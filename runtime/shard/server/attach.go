package server

import (
	"fmt"
	"os"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// maxAttached is how many may be attached to one container.
const maxAttached = 32

// attachment is the shard's side of one attacher.
type attachment struct {
	protocol.Attached
	files     []*os.File // to be sent
	listeners []*listener
	ended     chan struct{} // closed when the output was read to its end, or is not going to be
	leave     func()
}

func (c *container) attach(a protocol.Attach) (_ *attachment, err error) {
	if err := c.admit(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	state, out, in := c.status.State, c.output, c.stdin
	c.mu.Unlock()

	left := make(chan struct{})
	x := &attachment{ended: make(chan struct{})}
	end := sync.OnceFunc(func() { close(x.ended) })
	var joined []func()
	x.leave = func() {
		close(left)
		for _, leave := range joined {
			leave()
		}
		c.mu.Lock()
		c.attached--
		c.mu.Unlock()
	}
	defer func() {
		if err != nil {
			protocol.CloseAll(x.files)
			x.leave()
		}
	}()
	switch {
	case state != protocol.Running:
		return nil, fmt.Errorf("it does not run: %w", errdefs.ErrNotFound)
	case out == nil:
		return nil, fmt.Errorf("its terminal has died with an earlier shard: %w", errdefs.ErrFailedPrecondition)
	case c.record.Terminal:
		x.Terminal, x.Stdin = true, a.Stdin && c.record.Stdin
		terminal, err := out.terminal()
		if err != nil {
			return nil, fmt.Errorf("terminal: %w", err)
		}
		x.files = append(x.files, terminal)
	case a.Stdin && in != nil:
		f, err := in.open()
		if err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
		if f != nil {
			x.Stdin, x.StdinOnce = true, c.record.StdinOnce
			x.files = append(x.files, f)
		}
	}
	patience := listenerPatience
	if a.Stdin && c.record.Stdin {
		patience = 0 // the two talk to each other
	}
	x.Stdout, x.Stderr = a.Stdout, a.Stderr && !x.Terminal
	for i, wanted := range []bool{x.Stdout, x.Stderr} {
		if !wanted {
			continue
		}
		r, w, err := pipe()
		if err != nil {
			return nil, err
		}
		x.files = append(x.files, r)
		l := newListener(w, patience, end)
		if !out.broadcasters[i].add(l) {
			w.Close() // the container has closed this stream; it may still read, and write to the other one
			continue
		}
		x.listeners = append(x.listeners, l)
		joined = append(joined, func() { out.broadcasters[i].remove(l) })
	}
	go func() {
		defer end()
		for _, l := range x.listeners {
			select {
			case <-l.done:
			case <-left:
				return
			}
		}
		select {
		case <-out.drained:
		case <-left:
		}
	}()
	return x, nil
}

// admit counts another attacher, unless there are too many.
func (c *container) admit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached >= maxAttached {
		return fmt.Errorf("%d are attached already: %w", maxAttached, errdefs.ErrUnavailable)
	}
	c.attached++
	return nil
}

// err returns why an attacher did not get everything.
func (x *attachment) err() error {
	for _, l := range x.listeners {
		if err := l.err(); err != nil {
			return err
		}
	}
	return nil
}

// serveAttach answers a request to attach, on a connection of its own, with the ends of the streams, and reports the
// end of the output. The daemon detaches by hanging up, which the container does not notice.
func (s *Server) serveAttach(p *peer, m *protocol.Message) {
	x, err := s.attach(m)
	reply := &protocol.Message{Op: protocol.OpReply, Seq: m.Seq}
	if err != nil {
		reply.Error = protocol.EncodeError(err)
		p.send(reply)
		return
	}
	defer x.leave()
	reply.Attached = &x.Attached
	p.sendFiles(reply, x.files)
	protocol.CloseAll(x.files)
	select {
	case <-x.ended:
		p.send(&protocol.Message{Op: protocol.OpExecExit, Error: protocol.EncodeError(x.err())})
	case <-p.gone:
	}
}

func (s *Server) attach(m *protocol.Message) (*attachment, error) {
	if m.Attach == nil {
		return nil, fmt.Errorf("attach to nothing: %w", errdefs.ErrInvalidArgument)
	}
	c, err := s.find(m.ID)
	if err != nil {
		return nil, err
	}
	return c.attach(*m.Attach)
}

// closeStdin ends the stdin of a container that was started with StdinOnce. For any other it changes nothing.
func (c *container) closeStdin() error {
	c.mu.Lock()
	in := c.stdin
	c.mu.Unlock()
	if in == nil || !c.record.StdinOnce {
		return fmt.Errorf("container %s has no stdin to be closed: %w", c.record.ID, errdefs.ErrFailedPrecondition)
	}
	in.close()
	return nil
}
