package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/crash"
)

// Options says where a shard lives and how it is started.
type Options struct {
	// Dir is the shard's own directory: its socket, bundles, records. It is made if it does not exist. The file system
	// may be volatile and mounted noexec.
	Dir string
	// Binary is the path of jobd-shim.
	Binary string
	// Cgroup is where the shard's process is put, for example /jobd/shard-0, so that whatever ends the daemon's
	// cgroup spares it. Empty: it stays in the daemon's.
	Cgroup string
	// OnExit is told of each exit from the moment of the launch, in order, and must not block. After the shard was
	// connected anew, it is told again of every container that has ended and is not deleted; the receiver tells
	// by the ID what it knows already.
	OnExit func(Container)
	Logger *slog.Logger
}

// Shard is a shard as the daemon has it: connected, and started anew when it dies. Its methods may be called from any
// goroutine; while it is being connected anew they wait.
type Shard struct {
	options Options

	mu       sync.Mutex
	client   *Client
	replaced chan struct{} // closed when another client takes client's place
	ending   bool          // Shutdown was asked for: not to be started anew

	stop context.CancelFunc
	done chan struct{}
}

// Launch connects to the shard of a directory, and starts it when none runs there.
func Launch(ctx context.Context, o Options) (*Shard, error) {
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

// PID is the shard's process.
func (s *Shard) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client.Hello().PID
}

// RuntimeState is where the OCI runtime keeps what it has to know of a container that runs.
func (s *Shard) RuntimeState(id string) string { return filepath.Join(s.options.Dir, runtimeDir, id) }

// Start is Client.Start; it survives the shard's death.
func (s *Shard) Start(ctx context.Context, start Start) (Container, error) {
	return retry(ctx, s, func(c *Client) (Container, error) { return c.Start(ctx, start) })
}

// Signal is Client.Signal. It is not taken again when the connection breaks: the error is errdefs.ErrUnavailable then.
func (s *Shard) Signal(ctx context.Context, id string, sig syscall.Signal, all bool) error {
	c, err := s.current(ctx)
	if err != nil {
		return err
	}
	return c.Signal(ctx, id, sig, all)
}

// Delete is Client.Delete, but a container that is not known is no error.
func (s *Shard) Delete(ctx context.Context, id string) (Container, error) {
	c, err := retry(ctx, s, func(c *Client) (Container, error) { return c.Delete(ctx, id) })
	if errors.Is(err, errdefs.ErrNotFound) {
		return Container{ID: id}, nil
	}
	return c, err
}

// Exec starts a process in a running container, which lives as long as the Process that is returned: the end of ctx closes
// that. One that does not run gives errdefs.ErrNotFound, a shard of an older version errdefs.ErrNotImplemented. The error is
// a *StartError when the process could not be started.
func (s *Shard) Exec(ctx context.Context, id string, e Exec) (*Process, error) {
	return s.process(ctx, func(socket string) (*Process, error) { return startProcess(ctx, socket, id, e) })
}

// Attach gives the streams of a running container's first process, which goes on when the Process is closed, as the end of
// ctx does. One that does not run gives errdefs.ErrNotFound.
func (s *Shard) Attach(ctx context.Context, id string, a Attach) (*Process, error) {
	return s.process(ctx, func(socket string) (*Process, error) { return attachProcess(ctx, socket, id, a) })
}

// process opens one, again when the shard turns out to have just died: what was not reached was not asked.
func (s *Shard) process(ctx context.Context, open func(socket string) (*Process, error)) (*Process, error) {
	for {
		c, err := s.current(ctx)
		if err != nil {
			return nil, err
		}
		p, err := open(socketPath(s.options.Dir))
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

// Attaches tells whether the shard knows of attaching, terminals and stdin: one of an older version does not.
func (s *Shard) Attaches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.client.Hello().Capabilities, canAttach)
}

// List is Client.List.
func (s *Shard) List(ctx context.Context) ([]Container, error) {
	return retry(ctx, s, func(c *Client) ([]Container, error) { return c.List(ctx) })
}

// Shutdown ends the shard's process and closes the Shard. While it holds containers this is refused with
// errdefs.ErrFailedPrecondition, and nothing is changed.
func (s *Shard) Shutdown(ctx context.Context) error {
	c, err := s.current(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	if err := c.Shutdown(ctx); err != nil {
		s.mu.Lock()
		s.ending = false
		s.mu.Unlock()
		return err
	}
	<-c.Done()
	return s.Close()
}

// Close lets go of the shard and leaves it running with its containers.
func (s *Shard) Close() error {
	s.stop()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client.Close()
	return nil
}

// current is the client, once it is connected.
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

// retry takes an idempotent call again for as long as the connection breaks under it.
func retry[T any](ctx context.Context, s *Shard, call func(*Client) (T, error)) (T, error) {
	for {
		c, err := s.current(ctx)
		if err != nil {
			var none T
			return none, err
		}
		result, err := call(c)
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

// keep connects anew, and starts anew, whenever the shard is gone.
func (s *Shard) keep(ctx context.Context) {
	defer close(s.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.client.Done():
		}
		s.mu.Lock()
		ending := s.ending
		s.mu.Unlock()
		if ending || ctx.Err() != nil {
			return
		}
		s.options.Logger.Warn("shard is gone", "shard", s.options.Dir)
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
			s.options.Logger.Error("shard cannot be started", "shard", s.options.Dir, "error", err)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	}
}

// report tells of everything that ended while nobody was connected.
func (s *Shard) report(ctx context.Context, client *Client) {
	containers, err := client.List(ctx)
	if err != nil {
		return // the connection broke again, and so will be noticed
	}
	for _, c := range containers {
		if c.State.Ended() && s.options.OnExit != nil {
			s.options.OnExit(c)
		}
	}
}

// readyTimeout bounds how long a new shard may take until it listens; it may have containers of a dead one to bury.
const readyTimeout = 30 * time.Second

func connect(ctx context.Context, o Options) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if client, err := Dial(ctx, socketPath(o.Dir), o.OnExit); err == nil {
			o.enterCgroup(client.Hello().PID) // a daemon that died just after it had started it did not come to that
			return client, nil
		}
		err := spawn(ctx, o)
		if err == nil {
			return Dial(ctx, socketPath(o.Dir), o.OnExit)
		}
		if !errors.Is(err, errHeld) {
			return nil, err
		}
		// By one that an earlier daemon started just before it died, and that is about to listen, or by one that is
		// about to be gone.
		select {
		case <-time.After(heldPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// heldPause is the time between attempts to reach a shard that another process holds.
const heldPause = 20 * time.Millisecond

// spawn starts a shard detached from this process, and returns when it listens.
func spawn(ctx context.Context, o Options) error {
	if err := os.MkdirAll(o.Dir, 0o711); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	output, err := os.OpenFile(filepath.Join(o.Dir, "shard.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	defer output.Close()
	ready, signal, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	defer ready.Close()
	cmd := exec.Command(o.Binary, "--dir", o.Dir, "--ready-fd", "3")
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{signal}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	signal.Close()
	if err != nil {
		return fmt.Errorf("start shard: %w", err)
	}
	crash.At("spawn.started")
	o.enterCgroup(cmd.Process.Pid)
	// The kernel should take anything else first. Not everyone may ask for that.
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "oom_score_adj"), []byte("-999"), 0)
	go cmd.Wait() // it outlives us, or else is reaped here

	stop := context.AfterFunc(ctx, func() { ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	word, err := io.ReadAll(ready)
	switch {
	case string(word) == readyWord:
		return nil
	case strings.HasPrefix(string(word), heldWord):
		err = fmt.Errorf("%w: %s", errHeld, word[len(heldWord):])
	}
	if err == nil {
		err = errors.New(cmp.Or(string(word), "it ended, see "+output.Name()))
	}
	return fmt.Errorf("start shard %s: %w: %w", o.Dir, errdefs.ErrUnavailable, err)
}

func (o *Options) enterCgroup(pid int) {
	if o.Cgroup == "" {
		return
	}
	if err := cgroup.Enter(o.Cgroup, pid); err != nil {
		o.Logger.Warn("shard stays in the daemon's cgroup", "shard", o.Dir, "error", err)
	}
}

func socketPath(dir string) string { return filepath.Join(dir, "shard.sock") }
