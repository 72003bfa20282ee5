package metrics

import "github.com/prometheus/client_golang/prometheus"

var (
	manifestsDesc = prometheus.NewDesc("jobd_manifests_objects",
		"Objects that were applied from the directory of manifests and are still in it.", nil, nil)
	manifestProblemsDesc = prometheus.NewDesc("jobd_manifests_problems",
		"What is wrong with files of the directory of manifests, or with objects in them.", nil, nil)
)

// manifests are the metrics of the directory of manifests.
type manifests func() (objects, problems int)

// ShowManifests adds metrics of the directory of manifests. It is called before Register.
func (m *Metrics) ShowManifests(count func() (objects, problems int)) {
	m.all = append(m.all, manifests(count))
}

// Describe implements prometheus.Collector.
func (m manifests) Describe(out chan<- *prometheus.Desc) {
	out <- manifestsDesc
	out <- manifestProblemsDesc
}

// Collect implements prometheus.Collector.
func (m manifests) Collect(out chan<- prometheus.Metric) {
	objects, problems := m()
	out <- prometheus.MustNewConstMetric(manifestsDesc, prometheus.GaugeValue, float64(objects))
	out <- prometheus.MustNewConstMetric(manifestProblemsDesc, prometheus.GaugeValue, float64(problems))
}
