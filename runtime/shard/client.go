package shard

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Client is one connection to a shard. It may be used by many goroutines. When the connection is gone every call
// returns errdefs.ErrUnavailable; Shard connects again.
type Client struct {
	conn   net.Conn
	onExit func(protocol.Container)
	hello  protocol.Hello

	write sync.Mutex

	mu      sync.Mutex
	seq     uint64
	waiting map[uint64]chan<- protocol.Message
	broken  error // set once the connection is gone

	done chan struct{}
}

// Dial connects to the shard that listens on a socket. From now on each exit is passed to onExit, in order, which must
// not block; List finds earlier ones. An exit that comes at the same time may be seen twice, and may overtake the
// answer to its Start.
func Dial(ctx context.Context, socket string, onExit func(protocol.Container)) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to shard: %w: %w", errdefs.ErrUnavailable, err)
	}
	c := &Client{conn: conn, onExit: onExit, waiting: map[uint64]chan<- protocol.Message{}, done: make(chan struct{})}
	go c.read()
	own := &protocol.Hello{Version: protocol.Version, PID: os.Getpid()}
	reply, err := c.call(ctx, protocol.Message{Op: protocol.OpHello, Hello: own}, nil)
	if err == nil && reply.Hello == nil {
		err = fmt.Errorf("shard sent no hello: %w", errdefs.ErrUnavailable)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("greet shard at %s: %w", socket, err)
	}
	c.hello = *reply.Hello
	return c, nil
}

// Hello returns what the shard has said about itself.
func (c *Client) Hello() protocol.Hello { return c.hello }

// Start starts a container and returns once its process runs. A container of that ID that exists already is left as it
// is and returned, whatever its state, so that a start in doubt can simply be repeated. The error is a
// *protocol.StartError when the process could not be started, errdefs.ErrAborted when it was called off or deleted.
// When ctx ends first, the start goes on; CallOff ends it.
func (c *Client) Start(ctx context.Context, s protocol.Start) (protocol.Container, error) {
	reply, err := c.call(ctx, protocol.Message{Op: protocol.OpStart, Start: &s}, s.Spec)
	return containerOf(reply, err)
}

// containerOf returns the container in a reply, which may come with an error.
func containerOf(m protocol.Message, err error) (protocol.Container, error) {
	if m.Container != nil {
		return *m.Container, err
	}
	if err == nil {
		err = fmt.Errorf("shard answered without a container: %w", errdefs.ErrUnknown)
	}
	return protocol.Container{}, err
}

// CallOff ends the start of a container that is under way: the OCI runtime and the processes it has started are killed,
// Start returns errdefs.ErrAborted, and nothing is left. The error is errdefs.ErrFailedPrecondition when the start is
// over, errdefs.ErrNotFound when the container is not known, and errdefs.ErrNotImplemented when the shard is of an
// older version.
func (c *Client) CallOff(ctx context.Context, id string) error {
	_, err := c.call(ctx, protocol.Message{Op: protocol.OpCallOff, ID: id}, nil)
	return err
}

// Signal sends a signal to a container's first process, or with all to each of its processes. The error is
// errdefs.ErrNotFound when the container has ended or is not known, errdefs.ErrFailedPrecondition when it is being
// started.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal, all bool) error {
	_, err := c.call(ctx, protocol.Message{Op: protocol.OpSignal, ID: id, Signal: int(sig), All: all}, nil)
	return err
}

// SignalOnce sends a signal to a container's first process, unless the shard has sent one in this way before. A shard of an older
// version sends it each time. The errors are those of Signal.
func (c *Client) SignalOnce(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := c.call(ctx, protocol.Message{Op: protocol.OpSignal, ID: id, Signal: int(sig), Once: true}, nil)
	return err
}

// CloseStdin ends the stdin of a container that was started with StdinOnce, once those who are attached have closed it.
func (c *Client) CloseStdin(ctx context.Context, id string) error {
	_, err := c.call(ctx, protocol.Message{Op: protocol.OpCloseStdin, ID: id}, nil)
	return err
}

// Delete forgets a container and removes all that is left of it except its log; one that still runs is killed first. It
// returns how the container ended; errdefs.ErrNotFound when it is not known.
func (c *Client) Delete(ctx context.Context, id string) (protocol.Container, error) {
	reply, err := c.call(ctx, protocol.Message{Op: protocol.OpDelete, ID: id}, nil)
	return containerOf(reply, err)
}

// List returns every container the shard holds, including those that have ended and are not yet deleted.
func (c *Client) List(ctx context.Context) ([]protocol.Container, error) {
	reply, err := c.call(ctx, protocol.Message{Op: protocol.OpList}, nil)
	return reply.Containers, err
}

// Shutdown ends the shard. While it holds containers this is refused with errdefs.ErrFailedPrecondition.
func (c *Client) Shutdown(ctx context.Context) error {
	_, err := c.call(ctx, protocol.Message{Op: protocol.OpShutdown}, nil)
	return err
}

// Done is closed when the connection is gone.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close closes the connection. The shard and its containers live on.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

func (c *Client) call(ctx context.Context, m protocol.Message, body []byte) (protocol.Message, error) {
	answer := make(chan protocol.Message, 1)
	c.mu.Lock()
	if c.broken != nil {
		c.mu.Unlock()
		return protocol.Message{}, c.broken
	}
	c.seq++
	m.Seq = c.seq
	c.waiting[m.Seq] = answer
	c.mu.Unlock()

	frame, err := protocol.Encode(&m, body)
	if err == nil {
		c.write.Lock()
		_, err = c.conn.Write(frame)
		c.write.Unlock()
		if err != nil {
			c.Close()
			err = fmt.Errorf("ask shard to %s: %w: %w", m.Op, errdefs.ErrUnavailable, err)
		}
	}
	if err != nil {
		c.forget(m.Seq)
		return protocol.Message{}, err
	}
	select {
	case reply, ok := <-answer:
		if !ok {
			return protocol.Message{}, c.broken
		}
		return reply, protocol.DecodeError(reply.Error)
	case <-ctx.Done():
		c.forget(m.Seq)
		return protocol.Message{}, fmt.Errorf("shard does not answer %s: %w", m.Op, ctx.Err())
	}
}

func (c *Client) forget(seq uint64) {
	c.mu.Lock()
	delete(c.waiting, seq)
	c.mu.Unlock()
}

func (c *Client) read() {
	r := bufio.NewReaderSize(c.conn, 16<<10)
	for {
		m, _, err := protocol.Decode(r)
		if err != nil {
			c.conn.Close()
			c.mu.Lock() // whoever sees a broken connection sees done closed as well
			c.broken = fmt.Errorf("connection to shard: %w: %w", errdefs.ErrUnavailable, err)
			close(c.done)
			for _, answer := range c.waiting {
				close(answer)
			}
			c.waiting = nil
			c.mu.Unlock()
			return
		}
		switch m.Op {
		case protocol.OpExit:
			if m.Container != nil && c.onExit != nil {
				c.onExit(*m.Container)
			}
		case protocol.OpReply:
			c.mu.Lock()
			answer := c.waiting[m.Seq]
			delete(c.waiting, m.Seq)
			c.mu.Unlock()
			if answer != nil {
				answer <- m
			}
		}
	}
}
