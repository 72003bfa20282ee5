package containerd

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

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
	r.Expect()
	at := r.shards.at(c.shard)
	if e.Own && !at.Can(protocol.CanExecOwn) {
		return 0, fmt.Errorf("an older version of jobd has started it: %w", errdefs.ErrNotImplemented)
	}
	p, err := at.Exec(ctx, id, protocol.Exec{Args: e.Args, TTY: e.TTY, Stdin: e.Stdin != nil, Own: e.Own})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	ended := make(chan struct{})
	defer close(ended)

	if e.Stdin != nil {
		go func() {
			if _, err := io.Copy(p.Stdin, e.Stdin); err != nil {
				_, _ = io.Copy(io.Discard, e.Stdin) // the process need not read all of it
			} else if !e.TTY {
				p.Stdin.Close()
			}
		}()
	}
	if e.Resize != nil {
		go resize(p, e.Resize, ended)
	}
	var output sync.WaitGroup
	bring(&output, p, p.Stdout, e.Stdout)
	bring(&output, p, p.Stderr, e.Stderr)
	code, err := p.Wait(ctx)
	output.Wait()
	return code, err
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
// does not have it.
func bring(output *sync.WaitGroup, p *shard.Process, stream *os.File, w io.Writer) {
	if stream == nil {
		return
	}
	if w == nil {
		w = io.Discard
	}
	output.Go(func() {
		if p.Copy(w, stream) != nil {
			stream.Close() // nobody reads it any more: let the process know
		}
	})
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
