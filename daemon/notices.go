package daemon

import (
	"fmt"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/jobd/jobd/daemon/answers"
	"github.com/jobd/jobd/daemon/receivers"
)

// openReceivers starts what delivers notices, or, if there are no receivers any more, tells what was left of them.
func (d *daemon) openReceivers(from sources) (*receivers.Deliveries, error) {
	c := &d.config
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
