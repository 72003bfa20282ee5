package upkeep

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// decayedInterval is how often it is looked for use that has decayed to nothing.
const decayedInterval = 24 * time.Hour

// Shares keeps what everybody has used, over restarts: for each account a number and a time, written with what changes how fast it grows.
type Shares struct {
	loop.Base
	timers   *loop.Timers
	capacity *node.Node
}

// NewShares makes the controller.
func NewShares(timers *loop.Timers, capacity *node.Node) *Shares {
	return &Shares{timers: timers, capacity: capacity}
}

func shareKey(account string) string { return store.Key(objects.Shares, "", url.PathEscape(account)) }

// Rebuild implements loop.Controller.
func (s *Shares) Rebuild(from *store.Snapshot, now time.Time) (err error) {
	from.Range(objects.Shares+"/", "", func(o store.Object) bool {
		var stored fairness.Account
		if err = json.Unmarshal(o.Value, &stored); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		if stored.Name, err = url.PathUnescape(strings.TrimPrefix(o.Key, shareKey(""))); err == nil {
			s.capacity.SetAccount(stored)
		}
		return err == nil
	})
	s.timers.Set(s, "", now.Add(time.Minute))
	return err
}

// NamespaceKnown takes in the weight of a namespace, which was validated when it was stored.
func (s *Shares) NamespaceKnown(ns *corev1.Namespace) {
	share, _ := core.Share(ns.Annotations)
	s.capacity.SetShare("namespace "+ns.Name, share)
}

// NamespaceChanged implements loop.NamespaceFollower.
func (s *Shares) NamespaceChanged(_ *loop.Pass, ns *corev1.Namespace) error {
	s.NamespaceKnown(ns)
	return nil
}

// NamespaceGone implements loop.NamespaceFollower.
func (s *Shares) NamespaceGone(_ *loop.Pass, name string) error {
	s.capacity.SetShare("namespace "+name, 0)
	return nil
}

// Due forgets those who have used nothing for long.
func (s *Shares) Due(p *loop.Pass, _ string) error {
	s.capacity.Decayed()
	s.timers.Set(s, "", p.Now.Add(decayedInterval))
	return nil
}

// Finish implements loop.Finisher: it writes what the pass has changed.
func (s *Shares) Finish(p *loop.Pass) error {
	changed, gone := s.capacity.TakeAccounts()
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
