package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Options holds where a shard has its files and how it is started.
type Options struct {
	// Dir is the shard's own directory: its socket, bundles, records. It is made if it does not exist. The file system
	// may be volatile and mounted noexec.
	Dir string
	// Binary is the path of jobd-shim.
	Binary string
	// Cgroup is the control group that the shard's process is put into, for example /jobd/shard-0, so that it survives
	// when everything in the daemon's is killed. Empty: it stays in the daemon's.
	Cgroup string
	// OnExit is called for each exit once Open has been called, in order, and must not block. After a new connection it
	// is called again for every container that has ended and is not deleted; the receiver knows by the ID what it has
	// already seen.
	OnExit func(protocol.Container)
	Logger *slog.Logger
}

// Shard is the daemon's side of a shard: connected, and started again when it dies. Its methods may be called from any
// goroutine; they wait while it reconnects.
type Shard struct {
	options Options

	mu       sync.Mutex
	client   *Client
	replaced chan struct{} // closed when another client takes client's place

	shutdown sync.Mutex // held while Shutdown waits for its answer
	ended    bool       // the shard has agreed to end, and is not started again; guarded by shutdown

	stop context.CancelFunc
	done chan struct{}
}

// Open connects to the shard of a directory, and starts its process when none runs there.
func Open(ctx context.Context, o Options) (*Shard, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.Background())
	s := &Shard{options: o, client: client, replaced: make(chan struct{}), stop: stop, done: make(chan struct{})}
	go s.keep(life)
	return s, nil
}

// PID returns the shard's process.
func (s *Shard) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client.Hello().PID
}

// RuntimeState returns the path where the OCI runtime keeps the state of a running container.
func (s *Shard) RuntimeState(id string) string {
	return filepath.Join(s.options.Dir, protocol.RuntimeDir, id)
}

// Start is Client.Start; it survives the shard's death.
func (s *Shard) Start(ctx context.Context, start protocol.Start) (protocol.Container, error) {
	return retry(ctx, s, func(c *Client) (protocol.Container, error) { return c.Start(ctx, start) })
}

// CallOff is Client.CallOff. It is not repeated when the connection breaks: the error is errdefs.ErrUnavailable then.
func (s *Shard) CallOff(ctx context.Context, id string) error {
	c, err := s.current(ctx)
	if err != nil {
		return err
	}
	return c.CallOff(ctx, id)
}

// Signal is Client.Signal. It is not repeated when the connection breaks: the error is errdefs.ErrUnavailable then.
func (s *Shard) Signal(ctx context.Context, id string, sig syscall.Signal, all bool) error {
	c, err := s.current(ctx)
	if err != nil {
		return err
	}
	return c.Signal(ctx, id, sig, all)
}

// SignalOnce is Client.SignalOnce. It may be repeated when the connection breaks.
func (s *Shard) SignalOnce(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := retry(ctx, s, func(c *Client) (struct{}, error) { return struct{}{}, c.SignalOnce(ctx, id, sig) })
	return err
}

// Delete is Client.Delete, but a container that is not known is no error.
func (s *Shard) Delete(ctx context.Context, id string) (protocol.Container, error) {
	c, err := retry(ctx, s, func(c *Client) (protocol.Container, error) { return c.Delete(ctx, id) })
	if errors.Is(err, errdefs.ErrNotFound) {
		return protocol.Container{ID: id}, nil
	}
	return c, err
}

// Exec starts a process in a running container, which lives as long as the Process that is returned; the end of ctx
// closes that. The error is errdefs.ErrNotFound when the container does not run, errdefs.ErrNotImplemented when the
// shard is of an older version, and a *protocol.StartError when the process could not be started.
func (s *Shard) Exec(ctx context.Context, id string, e protocol.Exec) (*Process, error) {
	return s.process(ctx, func(socket string) (*Process, error) { return startProcess(ctx, socket, id, e) })
}

// Attach returns the streams of a running container's first process, which goes on when the Process is closed; the end
// of ctx closes that. The error is errdefs.ErrNotFound when the container does not run.
func (s *Shard) Attach(ctx context.Context, id string, a protocol.Attach) (*Process, error) {
	return s.process(ctx, func(socket string) (*Process, error) { return attachProcess(ctx, socket, id, a) })
}

// process opens a process, and does so again when the shard turns out to have just died: a request that did not reach
// it was not made.
func (s *Shard) process(ctx context.Context, open func(socket string) (*Process, error)) (*Process, error) {
	for {
		c, err := s.current(ctx)
		if err != nil {
			return nil, err
		}
		p, err := open(protocol.SocketPath(s.options.Dir))
		if !errors.Is(err, errNotReached) {
			return p, err
		}
		select {
		case <-c.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(noticeTime):
			return nil, err
		}
	}
}

// noticeTime is how long it may take until the death of a shard is noticed.
const noticeTime = 5 * time.Second

// CloseStdin is Client.CloseStdin.
func (s *Shard) CloseStdin(ctx context.Context, id string) error {
	_, err := retry(ctx, s, func(c *Client) (struct{}, error) { return struct{}{}, c.CloseStdin(ctx, id) })
	return err
}

// Can reports whether the shard has a capability of package protocol: a shard of an older version may lack it.
func (s *Shard) Can(capability string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.client.Hello().Capabilities, capability)
}

// IsOld reports whether the shard lacks anything that one of this version can do.
func (s *Shard) IsOld() bool {
	return slices.ContainsFunc(protocol.Capabilities(), func(capability string) bool { return !s.Can(capability) })
}

// List is Client.List.
func (s *Shard) List(ctx context.Context) ([]protocol.Container, error) {
	return retry(ctx, s, func(c *Client) ([]protocol.Container, error) { return c.List(ctx) })
}

// Shutdown ends the shard's process and closes the Shard. While the shard holds containers this is refused with
// errdefs.ErrFailedPrecondition, and nothing is changed. What a shard that ends leaves on the host is removed: its
// directory, except for a log that is not empty, and its control group. Nobody else may start one there meanwhile.
func (s *Shard) Shutdown(ctx context.Context) error {
	c, err := s.current(ctx)
	if err != nil {
		return err
	}
	process, unknown := watch(c.Hello().PID)
	if unknown == nil {
		defer process.Close()
	}
	s.shutdown.Lock()
	err = c.Shutdown(ctx)
	s.ended = s.ended || err == nil
	s.shutdown.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
	}
	err = s.Close()
	left := errors.Join(unknown, waitForEnd(ctx, process))
	if left == nil {
		left = s.options.removeLeft()
	}
	if left != nil {
		s.options.Logger.Warn("cannot remove what a shard has left", "shard", s.options.Dir, "error", left)
	}
	return err
}

// Close disconnects from the shard and leaves it running with its containers.
func (s *Shard) Close() error {
	s.stop()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client.Close()
	return nil
}

// current returns the client, once it is connected.
func (s *Shard) current(ctx context.Context) (*Client, error) {
	for {
		s.mu.Lock()
		client, replaced := s.client, s.replaced
		s.mu.Unlock()
		if !isClosed(client.Done()) {
			return client, nil
		}
		select {
		case <-replaced:
		case <-s.done:
			return nil, fmt.Errorf("shard %s is closed: %w", s.options.Dir, errdefs.ErrUnavailable)
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for shard %s: %w", s.options.Dir, ctx.Err())
		}
	}
}

// retry repeats an idempotent call for as long as the connection breaks under it or the shard is about to end.
func retry[T any](ctx context.Context, s *Shard, call func(*Client) (T, error)) (T, error) {
	for {
		c, err := s.current(ctx)
		if err != nil {
			var none T
			return none, err
		}
		result, err := call(c)
		if errors.Is(err, protocol.ErrEnding) { // the next one can be asked as soon as this one is gone
			select {
			case <-c.Done():
				continue
			case <-ctx.Done():
				return result, err
			}
		}
		if err == nil || !errors.Is(err, errdefs.ErrUnavailable) || !isClosed(c.Done()) {
			return result, err
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// keep connects again whenever the connection breaks, and starts the shard again when it has died.
func (s *Shard) keep(ctx context.Context) {
	defer close(s.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.client.Done():
		}
		s.shutdown.Lock() // a shard that ends may be gone before Shutdown has processed its answer
		ended := s.ended
		s.shutdown.Unlock()
		if ended || ctx.Err() != nil {
			return
		}
		s.options.Logger.Warn("a shard has died or hung up, connecting again", "shard", s.options.Dir)
		for wait := 10 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			client, err := connect(ctx, s.options)
			if err == nil {
				s.report(ctx, client)
				s.mu.Lock()
				s.client = client
				close(s.replaced)
				s.replaced = make(chan struct{})
				s.mu.Unlock()
				break
			}
			if ctx.Err() != nil {
				return
			}
			s.options.Logger.Error("cannot start a shard", "shard", s.options.Dir, "error", err)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	}
}

// report reports every container that ended while nobody was connected.
func (s *Shard) report(ctx context.Context, client *Client) {
	containers, err := client.List(ctx)
	if err != nil {
		return // the connection broke again, which will be noticed
	}
	for _, c := range containers {
		if c.State.Ended() && s.options.OnExit != nil {
			s.options.OnExit(c)
		}
	}
}
