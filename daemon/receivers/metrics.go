package receivers

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Register adds the metrics to a registry until unregister is called.
func (d *Deliveries) Register(r prometheus.Registerer) (unregister func(), err error) {
	waits := waitingMetric{d}
	if err := r.Register(d.results); err != nil {
		return nil, err
	}
	if err := r.Register(waits); err != nil {
		r.Unregister(d.results)
		return nil, err
	}
	return func() { r.Unregister(d.results); r.Unregister(waits) }, nil
}

// waitingMetric is how many notices wait for each receiver.
type waitingMetric struct{ *Deliveries }

var waitingDesc = prometheus.NewDesc("jobd_notices_pending", "Notices that wait to be delivered.", []string{"receiver"}, nil)

// Describe implements prometheus.Collector.
func (waitingMetric) Describe(out chan<- *prometheus.Desc) { out <- waitingDesc }

// Collect implements prometheus.Collector.
func (w waitingMetric) Collect(out chan<- prometheus.Metric) {
	for name := range w.Receivers {
		pending, _ := w.waits(name)
		out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(pending), name)
	}
}
