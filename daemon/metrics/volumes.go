package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/store"
)

// measuredFor is how long the usage of a volume counts as known, as with a kubelet: measuring one may mean walking through
// all of its files.
const measuredFor = time.Minute

// volumeStats are the metrics of a kubelet about the volumes of claims.
type volumeStats struct {
	store   *store.Store
	measure func(volume string) (runtime.VolumeUsage, error)
	shown   []volumeStat

	mu       sync.Mutex // also keeps two readers from measuring the same
	measured map[string]measured
}

type volumeStat struct {
	desc  *prometheus.Desc
	value func(*runtime.VolumeUsage) int64
}

type measured struct {
	usage runtime.VolumeUsage
	at    time.Time
}

// ShowVolumes adds kubelet_volume_stats_*: what the claims use whose volumes jobd has created. It is called before Register.
func (m *Metrics) ShowVolumes(s *store.Store, measure func(volume string) (runtime.VolumeUsage, error)) {
	v := &volumeStats{store: s, measure: measure, measured: map[string]measured{}}
	for _, d := range []struct {
		name, help string
		value      func(*runtime.VolumeUsage) int64
	}{
		{"capacity_bytes", "Capacity in bytes of the volume", func(u *runtime.VolumeUsage) int64 { return u.Capacity }},
		{"available_bytes", "Number of available bytes in the volume", func(u *runtime.VolumeUsage) int64 { return u.Available }},
		{"used_bytes", "Number of used bytes in the volume", func(u *runtime.VolumeUsage) int64 { return u.Used }},
		{"inodes", "Maximum number of inodes in the volume", func(u *runtime.VolumeUsage) int64 { return u.Inodes }},
		{"inodes_free", "Number of free inodes in the volume", func(u *runtime.VolumeUsage) int64 { return u.InodesAvailable }},
		{"inodes_used", "Number of used inodes in the volume", func(u *runtime.VolumeUsage) int64 { return u.InodesUsed }},
	} {
		v.shown = append(v.shown, volumeStat{
			prometheus.NewDesc("kubelet_volume_stats_"+d.name, d.help, []string{"namespace", "persistentvolumeclaim"}, nil), d.value,
		})
	}
	m.all = append(m.all, v)
}

// Describe implements prometheus.Collector.
func (v *volumeStats) Describe(out chan<- *prometheus.Desc) {
	for _, s := range v.shown {
		out <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (v *volumeStats) Collect(out chan<- prometheus.Metric) {
	type bound struct{ namespace, name, volume string }
	var all []bound
	if err := v.store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Claims, func(_ string, c *corev1.PersistentVolumeClaim) error {
			if c.Status.Phase == corev1.ClaimBound {
				all = append(all, bound{c.Namespace, c.Name, c.Spec.VolumeName})
			}
			return nil
		})
	}); err != nil {
		return // it is closed
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known := make(map[string]measured, len(all))
	for _, c := range all {
		m, ok := v.measured[c.volume]
		if !ok || time.Since(m.at) > measuredFor {
			usage, err := v.measure(c.volume)
			if err != nil {
				continue // it is none of jobd's own, or is being deleted
			}
			m = measured{usage, time.Now()}
		}
		known[c.volume] = m
		for _, s := range v.shown {
			out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(s.value(&m.usage)), c.namespace, c.name)
		}
	}
	v.measured = known
}
