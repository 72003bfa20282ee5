package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/internal/watchdog"
)

var (
	slowDesc = prometheus.NewDesc("jobd_watchdog_slow_total",
		"Pieces of work that have lasted longer than ten seconds: passes, transactions, locks of the network.", []string{"section"}, nil)
	lastsDesc = prometheus.NewDesc("jobd_watchdog_work_seconds",
		"How long the present piece of work has lasted.", []string{"section"}, nil)
	asideDesc = prometheus.NewDesc("jobd_set_aside_objects",
		"Objects that the control loop leaves alone, because it hung while it was at work on them.", nil, nil)
)

// watched are the metrics of the watchdog.
type watched struct {
	watchdog *watchdog.Watchdog
	aside    *aside.List
}

// ShowWatchdog adds metrics of work that lasts long, and of what was set aside. It is called before Register.
func (m *Metrics) ShowWatchdog(w *watchdog.Watchdog, a *aside.List) {
	m.all = append(m.all, watched{w, a})
}

// Describe implements prometheus.Collector.
func (w watched) Describe(out chan<- *prometheus.Desc) {
	out <- slowDesc
	out <- lastsDesc
	out <- asideDesc
}

// Collect implements prometheus.Collector.
func (w watched) Collect(out chan<- prometheus.Metric) {
	for _, name := range w.watchdog.Sections() {
		f := w.watchdog.Figures(name)
		out <- prometheus.MustNewConstMetric(slowDesc, prometheus.CounterValue, float64(f.Slow), name)
		out <- prometheus.MustNewConstMetric(lastsDesc, prometheus.GaugeValue, f.Lasts.Seconds(), name)
	}
	out <- prometheus.MustNewConstMetric(asideDesc, prometheus.GaugeValue, float64(len(w.aside.Entries())))
}
