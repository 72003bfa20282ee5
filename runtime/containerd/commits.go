package containerd

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"go.etcd.io/bbolt"
)

// commits makes changes to containerd's database durable. Those that come while the disk is busy with earlier ones are
// committed together; one that comes alone waits for nothing, unless it may be delayed.
type commits struct {
	update    func(func(*bbolt.Tx) error) error
	snapshots snapshotLock

	mu      sync.Mutex
	waiting []*commit
	writing bool
	// delayed is set while nothing waits but what may be delayed.
	delayed *time.Timer
}

// batchDelay is how long a change that may be delayed waits to share a commit with others. Where pods come and go, the next
// start takes the removal of the last container along. A container that is started again after it has failed waits as
// long, for the removal of the one before.
const batchDelay = 5 * time.Millisecond

type commit struct {
	ctx  context.Context
	do   func(context.Context) error
	done chan error
}

// run returns once the changes that do makes are durable, or with an error when none of them is kept. do is called
// again, alone, when another change in the same commit has failed.
func (c *commits) run(ctx context.Context, do func(context.Context) error) error {
	return c.join(ctx, do, false)
}

// runLater is run for a change that may be delayed by batchDelay.
func (c *commits) runLater(ctx context.Context, do func(context.Context) error) error {
	return c.join(ctx, do, true)
}

func (c *commits) join(ctx context.Context, do func(context.Context) error, later bool) error {
	one := &commit{ctx: ctx, do: do, done: make(chan error, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, one)
	switch {
	case c.writing:
	case !later:
		c.begin()
	case c.delayed == nil:
		c.delayed = time.AfterFunc(batchDelay, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.delayed != nil { // if this comes too late it is another timer: then others wait for less
				c.begin()
			}
		})
	}
	c.mu.Unlock()
	return <-one.done
}

// begin lets what waits be written. mu is held.
func (c *commits) begin() {
	if c.delayed != nil {
		c.delayed.Stop()
		c.delayed = nil
	}
	c.writing = true
	go c.write()
}

// write commits what is waiting, until nothing is.
func (c *commits) write() {
	for {
		c.mu.Lock()
		batch := c.waiting
		c.waiting = nil
		c.writing = len(batch) > 0
		c.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		err := c.commit(batch)
		for _, one := range batch {
			if err != nil && len(batch) > 1 {
				one.done <- c.commit([]*commit{one})
			} else {
				one.done <- err
			}
		}
	}
}

func (c *commits) commit(batch []*commit) error {
	c.snapshots.Lock()
	defer c.snapshots.Unlock()
	return c.update(func(tx *bbolt.Tx) error {
		for _, one := range batch {
			if err := one.do(boltutil.WithTransaction(one.ctx, tx)); err != nil {
				return err
			}
		}
		return nil
	})
}
