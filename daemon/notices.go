package daemon

import (
	"context"
	"fmt"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/jobd/jobd/daemon/answers"
	"github.com/jobd/jobd/daemon/receivers"
)

// openReceivers starts what delivers notices, if there are receivers.
func (d *daemon) openReceivers(ctx context.Context, from sources) (*receivers.Deliveries, error) {
	c := &d.config
	if len(c.NotifyReceivers) == 0 {
		return nil, receivers.Discard(ctx, from.store)
	}
	explainer := &answers.Explainer{Sources: d.asked(from)}
	deliveries := receivers.New(receivers.Options{
		Store: from.store, Receivers: c.NotifyReceivers, Host: from.machine.Name, Explain: explainer.Told, EventTTL: c.EventTTL.Duration,
		Logger: c.Logger,
	})
	unregister, err := deliveries.Register(legacyregistry.Registerer())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	d.onStop("the metrics of notices", unregister)
	d.beside(deliveries.Run)
	return deliveries, nil
}

// asked is where answers come from.
func (d *daemon) asked(from sources) answers.Sources {
	asked := answers.Sources{Store: from.store, Loop: d.control, Logs: from.logs, JobLogs: from.logs, Aside: d.aside, Disk: d.explainDisk, TTL: d.config.TTL()}
	if from.machine.gpus != nil {
		asked.InUse = from.machine.gpus.InUse
	}
	return asked
}
