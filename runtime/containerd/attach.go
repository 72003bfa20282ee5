package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// closeTime is how long a shard may take to close the stdin of a container.
const closeTime = 10 * time.Second

// Attach connects to the first process of a running container.
func (r *Runtime) Attach(ctx context.Context, id string, a runtime.AttachRequest) error {
	if err := r.attach(ctx, id, a); err != nil {
		return fmt.Errorf("attach to container %s: %w", id, err)
	}
	return nil
}

func (r *Runtime) attach(ctx context.Context, id string, a runtime.AttachRequest) error {
	c, err := r.running(id)
	if err != nil {
		return err
	}
	p, err := r.shards.at(c.shard).Attach(ctx, id, protocol.Attach{
		Stdin: a.Stdin != nil, Stdout: a.Stdout != nil, Stderr: a.Stderr != nil,
	})
	if err != nil {
		return err
	}
	defer p.Close()

	session, detach := context.WithCancel(ctx)
	defer detach()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if a.Stdin != nil && r.feed(c, p, a.Stdin) {
			detach()
		}
	}()
	if a.Left != nil {
		go func() {
			defer detach()
			select {
			case <-session.Done():
				return
			case <-a.Left:
			}
			protocol.CloseAll([]*os.File{p.Stdout, p.Stderr}) // the container does not wait for those who have left
			select {
			case <-session.Done():
			case <-fed:
			}
		}()
	}
	if a.Resize != nil {
		go resize(p, a.Resize, session.Done())
	}
	var output sync.WaitGroup
	bring(&output, p, p.Stdout, a.Stdout, nil)
	bring(&output, p, p.Stderr, a.Stderr, nil)
	_, err = p.Wait(session)
	if session.Err() != nil {
		p.Close()
		err = ctx.Err() // nil when the client has only detached
	}
	output.Wait()
	return err
}

// feed copies the input of somebody who is attached to a process, and reports whether its end detaches them.
func (r *Runtime) feed(c *container, p *shard.Process, words io.Reader) (leave bool) {
	heard := p.Stdin != nil
	var err error
	if heard {
		r.speaks(c, p, true)
		_, err = io.Copy(p.Stdin, words)
		r.speaks(c, p, false)
	}
	var deaf *fs.PathError
	switch {
	case !heard, errors.As(err, &deaf):
		heard = false
		_, err = io.Copy(io.Discard, words)
	case err != nil && !p.Attached.Terminal:
		p.Stdin.Close() // left open, it would hold back the EOF that another client may send
	}
	if err == nil && p.Attached.StdinOnce {
		r.endStdin(c, p)
		return false
	}
	return err == nil && heard
}

// speaks records who writes to a container.
func (r *Runtime) speaks(c *container, p *shard.Process, begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if begins && c.stdinEnded {
		p.Stdin.Close() // another client has ended stdin in the meantime
	} else if begins {
		c.speakers = append(c.speakers, p)
	} else {
		c.speakers = slices.DeleteFunc(c.speakers, func(other *shard.Process) bool { return other == p })
	}
}

// endStdin ends the stdin of a container, even where others still write to it.
func (r *Runtime) endStdin(c *container, p *shard.Process) {
	p.Stdin.Close()
	r.mu.Lock()
	c.stdinEnded = true
	id, others, reads := c.status.ID, slices.Clone(c.speakers), c.status.State == runtime.Running
	r.mu.Unlock()
	if !reads {
		return
	}
	for _, other := range others {
		other.Stdin.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := r.shards.at(c.shard).CloseStdin(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		r.logger.Warn("cannot close stdin", "container", id, "error", err)
	}
}
