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
	container *container
	files     []*os.File // to be sent
	listeners []*listener
	// ended is closed by end, when the output was read to its end, or is not going to be.
	ended  chan struct{}
	end    func()
	left   chan struct{} // closed when the attacher leaves
	joined []func()      // undone then
}

func (c *container) attach(a protocol.Attach) (_ *attachment, err error) {
	if err := c.admit(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	state, out, in := c.status.State, c.output, c.stdin
	c.mu.Unlock()

	x := &attachment{container: c, ended: make(chan struct{}), left: make(chan struct{})}
	x.end = sync.OnceFunc(func() { close(x.ended) })
	defer func() {
		if err != nil {
			protocol.CloseAll(x.files)
			x.leave()
		}
	}()
	switch {
	case state != protocol.Running:
		err = fmt.Errorf("it does not run: %w", errdefs.ErrNotFound)
	case out == nil:
		err = fmt.Errorf("its terminal has died with an earlier shard: %w", errdefs.ErrFailedPrecondition)
	case c.record.Terminal:
		err = x.takeTerminal(out, a.Stdin)
	case a.Stdin && in != nil:
		err = x.takeStdin(in)
	}
	if err != nil {
		return nil, err
	}
	if err := x.listen(out, a); err != nil {
		return nil, err
	}
	go x.watch(out)
	return x, nil
}

// takeTerminal lets the attacher read and, if asked for, write the container's terminal.
func (x *attachment) takeTerminal(out *output, stdin bool) error {
	x.Terminal, x.Stdin = true, stdin && x.container.record.Stdin
	terminal, err := out.terminal()
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	x.files = append(x.files, terminal)
	return nil
}

// takeStdin lets the attacher write the container's stdin, unless that was closed.
func (x *attachment) takeStdin(in *stdin) error {
	f, err := in.open()
	if err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	if f != nil {
		x.Stdin, x.StdinOnce = true, x.container.record.StdinOnce
		x.files = append(x.files, f)
	}
	return nil
}

// listen lets the attacher read the streams that it asks for. A terminal has one only.
func (x *attachment) listen(out *output, a protocol.Attach) error {
	patience := listenerPatience
	if a.Stdin && x.container.record.Stdin {
		patience = 0 // the two talk to each other
	}
	x.Stdout, x.Stderr = a.Stdout, a.Stderr && !x.Terminal
	for i, wanted := range []bool{x.Stdout, x.Stderr} {
		if !wanted {
			continue
		}
		r, w, err := pipe()
		if err != nil {
			return err
		}
		x.files = append(x.files, r)
		l := newListener(w, patience, x.end)
		if !out.broadcasters[i].add(l) {
			w.Close() // the container has closed this stream; it may still read, and write to the other one
			continue
		}
		x.listeners = append(x.listeners, l)
		x.joined = append(x.joined, func() { out.broadcasters[i].remove(l) })
	}
	return nil
}

// watch ends the attachment when all of the output was read, or the attacher has left.
func (x *attachment) watch(out *output) {
	defer x.end()
	for _, l := range x.listeners {
		select {
		case <-l.done:
		case <-x.left:
			return
		}
	}
	select {
	case <-out.drained:
	case <-x.left:
	}
}

// leave gives up what the attacher has got of the container.
func (x *attachment) leave() {
	close(x.left)
	for _, leave := range x.joined {
		leave()
	}
	x.container.mu.Lock()
	defer x.container.mu.Unlock()
	x.container.attached--
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
