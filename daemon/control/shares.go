package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// FairShare is how the queue is ordered by what everybody has used.
type FairShare struct {
	// HalfLife is how long it takes until use counts for half as much.
	HalfLife time.Duration
	// ByCreator: use is that of those who create Jobs, not of namespaces.
	ByCreator bool
}

// accountOf returns whose use of the machine a pod is: empty if nobody asks.
func (f *FairShare) accountOf(p *corev1.Pod, of *jobRecord) string {
	switch {
	case f == nil:
		return ""
	case f.ByCreator && of != nil && of.creator != "":
		return "user " + of.creator
	}
	return "namespace " + p.Namespace // also where nobody knows who it was
}

// decayedInterval is how often it is looked for use that has decayed to nothing.
const decayedInterval = 24 * time.Hour

// shares keeps what everybody has used, over restarts: for each account a number and a time, written with what changes how fast it grows.
type shares struct {
	loop.Base
	timers   *loop.Timers
	capacity *node.Node
}

func newShares(timers *loop.Timers, capacity *node.Node) *shares {
	return &shares{timers: timers, capacity: capacity}
}

func shareKey(account string) string { return store.Key(objects.Shares, "", url.PathEscape(account)) }

// Rebuild implements loop.Controller.
func (c *shares) Rebuild(s *store.Snapshot, now time.Time) (err error) {
	s.Range(objects.Shares+"/", "", func(o store.Object) bool {
		var stored node.Account
		if err = json.Unmarshal(o.Value, &stored); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		if stored.Name, err = url.PathUnescape(strings.TrimPrefix(o.Key, shareKey(""))); err == nil {
			c.capacity.SetAccount(stored)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	c.timers.Set(c, "", now.Add(time.Minute))
	return objects.Each(s, objects.Namespaces, func(_ string, ns *corev1.Namespace) error {
		c.weigh(ns, false)
		return nil
	})
}

// weigh takes in the weight of a namespace.
func (c *shares) weigh(ns *corev1.Namespace, deleted bool) {
	share, _ := core.Share(ns.Annotations) // it was validated when the namespace was stored
	if deleted {
		share = 0
	}
	c.capacity.SetShare("namespace "+ns.Name, share)
}

// Fold takes in the weight of a namespace that has changed.
func (c *shares) Fold(_ *loop.Pass, change loop.Change) error {
	if change.Resource != objects.Namespaces {
		return nil
	}
	ns := &corev1.Namespace{}
	if err := objects.Decode(change.Object, ns); err != nil {
		return err
	}
	c.weigh(ns, change.Deleted)
	return nil
}

// Due forgets those who have used nothing for long.
func (c *shares) Due(p *loop.Pass, _ string) error {
	c.capacity.Decayed()
	c.timers.Set(c, "", p.Now.Add(decayedInterval))
	return nil
}

// Finish implements loop.Finisher: it writes what the pass has changed.
func (c *shares) Finish(p *loop.Pass) error {
	changed, gone := c.capacity.TakeAccounts()
	for i := range changed {
		value, err := json.Marshal(&changed[i])
		if err != nil {
			return err
		}
		p.PutStored(store.Object{Key: shareKey(changed[i].Name), Value: value})
	}
	for _, name := range gone {
		p.Delete(shareKey(name))
	}
	return nil
}

// Shares returns what everybody has used, the one that comes first in front; nil if the queue is not ordered by that.
func (c *Control) Shares(ctx context.Context) (all []node.Account, err error) {
	if c.config.Fair == nil {
		return nil, nil
	}
	err = c.loop.Ask(ctx, func() { all = c.records.queue.capacity.Accounts(c.now()) })
	return all, err
}

func (c *Control) now() time.Time {
	if c.config.Clock != nil {
		return c.config.Clock()
	}
	return time.Now()
}
