package control

import (
	"context"
	"fmt"

	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/upkeep"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

// epochKey is where the epoch is stored in which the stored pods were last known.
const epochKey = "boots.jobd.dev/host"

// Recover reads what the last daemon has left: the records from the store, and what became of the containers meanwhile
// from the runtime. Every start is such a recovery.
func (c *Control) Recover(ctx context.Context) error {
	s := c.config.Store
	if err := upkeep.DropMemories(ctx, s); err != nil {
		return err
	}
	if err := history.DropUsages(ctx, s); err != nil {
		return err
	}
	if err := upkeep.RenameNode(ctx, s, c.config.Node); err != nil {
		return fmt.Errorf("name of the node: %w", err)
	}
	if err := c.loop.Rebuild(); err != nil {
		return err
	}
	before := ""
	if err := s.View(func(s *store.Snapshot) error {
		if o, ok := s.Get(epochKey); ok {
			before = string(o.Value)
		}
		return nil
	}); err != nil {
		return err
	}
	rebooted := before != "" && before != c.config.Epoch
	observations, err := c.config.Workers.Recover(ctx, c.records.pods.resumed(s), rebooted)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	crash.At("recover.pods")
	if rebooted {
		c.config.Logger.Warn("the host went down since the last run: what ran then is lost",
			"containers", len(observations))
	}
	if before != c.config.Epoch {
		c.newEpoch = c.config.Epoch
	}
	c.config.Inbox.Report(observations)
	return nil
}

// epoch stores a new epoch in the transaction that takes in what the reboot has ended. After a crash before that the
// old one is found again.
type epoch struct {
	loop.Base
	control *Control
}

// Finish implements loop.Finisher.
func (e *epoch) Finish(p *loop.Pass) error {
	if e.control.newEpoch != "" {
		p.PutStored(store.Object{Key: epochKey, Value: []byte(e.control.newEpoch)})
		p.After(func() { e.control.newEpoch = "" })
	}
	return nil
}

// Count returns how many Jobs there are, how many of them are not finished, and how many pods run on this node. It must
// not be called while the loop runs.
func (c *Control) Count() (all, unfinished, running int) {
	_ = c.config.Store.View(func(s *store.Snapshot) error {
		all = s.Count(objects.Jobs + "/")
		return nil
	})
	for _, rec := range c.records.jobs.known {
		if !rec.Finished() {
			unfinished++
		}
	}
	return all, unfinished, c.records.queue.capacity.Running()
}
