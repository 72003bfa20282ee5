package control

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// GoDown has no further pod bound, and ends those on the node, because the machine goes down: each within its own grace period, and
// no later than that. It returns the keys of the pods that are to end. It may be called from any goroutine.
func (c *Control) GoDown(ctx context.Context, within time.Duration) (keys []string, err error) {
	c.goesDown.Store(true)
	return c.tellPods(ctx, duty.Observation{What: duty.HostStops, At: time.Now(), Took: within}, c.onNode)
}

// StayUp takes back GoDown: pods are bound again, and those go on that GoDown has ended and that restart their containers.
func (c *Control) StayUp(ctx context.Context) error {
	c.goesDown.Store(false)
	// Those that wait are told as well: it makes the loop look at them.
	_, err := c.tellPods(ctx, duty.Observation{What: duty.HostStays, At: time.Now()}, func(types.UID) bool { return true })
	return err
}

func (c *Control) onNode(uid types.UID) bool { return c.records.queue.capacity.Has(uid) }

// tellPods reports something of some pods. Those that were set aside are left alone.
func (c *Control) tellPods(ctx context.Context, o duty.Observation, which func(types.UID) bool) (keys []string, err error) {
	var told []duty.Observation
	// Between two passes: what was bound before, the records know by then.
	err = c.loop.Ask(ctx, func() {
		for uid, rec := range c.records.pods.known {
			if which(uid) && !c.config.Aside.Has(concernOfPods, rec.key) {
				o.UID = uid
				told, keys = append(told, o), append(keys, rec.key)
			}
		}
	})
	if len(told) > 0 {
		c.config.Inbox.Report(told)
	}
	return keys, err
}

// Stopping returns those of the pods that GoDown ends of which something still runs, as far as it is on record.
func (c *Control) Stopping(keys []string) (still []string, err error) {
	err = c.config.Store.View(func(s *store.Snapshot) error {
		for _, key := range keys {
			obj := &corev1.Pod{}
			if ok, err := objects.Read(s, key, obj); err != nil {
				return err
			} else if ok && podspec.Bound(obj) && !pod.HasStopped(obj) {
				still = append(still, key)
			}
		}
		return nil
	})
	return still, err
}
