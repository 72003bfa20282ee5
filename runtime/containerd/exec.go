package containerd

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Exec runs a process in a running container.
func (r *Runtime) Exec(ctx context.Context, id string, e runtime.ExecRequest) (int, error) {
	code, err := r.exec(ctx, id, e)
	if err != nil {
		return code, fmt.Errorf("exec in container %s: %w", id, err)
	}
	return code, nil
}

func (r *Runtime) exec(ctx context.Context, id string, e runtime.ExecRequest) (int, error) {
	if err := oci.CheckCommand(e.Args); err != nil {
		return 0, err
	}
	c, err := r.running(id)
	if err != nil {
		return 0, err
	}
	if err := r.refuseFrozen(r.podOf(c), id); err != nil {
		return 0, err
	}
	r.Expect()
	at := r.shards.at(c.shard)
	if e.Own && !at.Can(protocol.CanExecOwn) {
		return 0, fmt.Errorf("an older version of jobd has started it: %w", errdefs.ErrNotImplemented)
	}
	outlives := e.Left != nil && at.Can(protocol.CanOutlive)
	p, err := at.Exec(ctx, id, protocol.Exec{Args: e.Args, TTY: e.TTY, Stdin: e.Stdin != nil, Own: e.Own, Outlives: outlives})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	session, leave := context.WithCancel(ctx)
	defer leave()

	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if e.Stdin == nil {
			return
		}
		if _, err := io.Copy(p.Stdin, e.Stdin); err != nil {
			_, _ = io.Copy(io.Discard, e.Stdin) // the process need not read all of it
		}
		if !e.TTY {
			p.Stdin.Close()
		}
	}()
	if e.Resize != nil {
		go resize(p, e.Resize, session.Done())
	}
	if e.Left != nil {
		go func() {
			defer leave()
			part(session, p, e, fed, outlives)
		}()
	}
	var output sync.WaitGroup
	bring(&output, p, p.Stdout, e.Stdout, e.Left)
	bring(&output, p, p.Stderr, e.Stderr, e.Left)
	code, err := p.Wait(session)
	if session.Err() != nil {
		p.Close()
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("whoever wanted it has left: %w", errdefs.ErrAborted)
		}
	}
	output.Wait()
	return code, err
}

const (
	// typedTime is how long a process may take to read what was typed, before its terminal hangs up.
	typedTime = 2 * time.Second
	// olderTime is what remains of a process whose client has left, where the shard is of a version that kills it afterwards.
	olderTime = time.Minute
	// dropPause is how long it takes at least to drop a piece of output that nobody is there for: a process that writes without
	// end is held back.
	dropPause = 10 * time.Millisecond
)

// part waits until whoever wanted a process has left, and it has got all of its input.
func part(ctx context.Context, p *shard.Process, e runtime.ExecRequest, fed <-chan struct{}, outlives bool) {
	for _, event := range []<-chan struct{}{e.Left, fed} {
		select {
		case <-event:
		case <-ctx.Done():
			return
		}
	}
	switch {
	case e.TTY:
		within, cancel := context.WithTimeout(ctx, typedTime)
		defer cancel()
		p.Taken(within)
	case !outlives:
		select {
		case <-ctx.Done():
		case <-time.After(olderTime):
		}
	}
}

// running returns a running container. The error is errdefs.ErrNotFound for any other.
func (r *Runtime) running(id string) (*container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil || c.status.State != runtime.Running {
		return nil, fmt.Errorf("it does not run: %w", errdefs.ErrNotFound)
	}
	return c, nil
}

// bring starts to copy what a process writes to one of its streams until the stream ends. stream is nil if the process
// does not have it. left is nil, or closed when nobody is there any more who reads it.
func bring(output *sync.WaitGroup, p *shard.Process, stream *os.File, w io.Writer, left <-chan struct{}) {
	if stream == nil {
		return
	}
	if w == nil {
		w = io.Discard
	}
	output.Go(func() {
		switch err := p.Copy(present{w, left}, stream); {
		case err == nil:
		case left == nil:
			stream.Close() // nobody reads it any more: let the process know
		default:
			_ = p.Copy(nowhere{}, stream)
		}
	})
}

// present writes to somebody for as long as they are there.
type present struct {
	io.Writer
	left <-chan struct{}
}

func (w present) Write(b []byte) (int, error) {
	select {
	case <-w.left:
		return 0, io.ErrClosedPipe
	default:
		return w.Writer.Write(b)
	}
}

// nowhere drops what is written, without haste.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) {
	time.Sleep(dropPause)
	return len(b), nil
}

func resize(p *shard.Process, sizes <-chan runtime.TerminalSize, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = p.Resize(size.Width, size.Height) // it may just have ended
		}
	}
}
