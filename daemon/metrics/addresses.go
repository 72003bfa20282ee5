package metrics

import "github.com/prometheus/client_golang/prometheus"

var waitingDesc = prometheus.NewDesc("jobd_addresses_waiting",
	"Addresses on which the API is not served yet, since another process has their ports.", nil, nil)

// addresses are the metrics of where the API is served.
type addresses func() (waiting []error)

// ShowAddresses adds metrics of the addresses on which the API is not served yet. It is called before Register.
func (m *Metrics) ShowAddresses(waiting func() []error) {
	m.all = append(m.all, addresses(waiting))
}

// Describe implements prometheus.Collector.
func (a addresses) Describe(out chan<- *prometheus.Desc) { out <- waitingDesc }

// Collect implements prometheus.Collector.
func (a addresses) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(len(a())))
}
