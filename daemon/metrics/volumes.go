package metrics

import (
	"context"
	"slices"
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

const (
	// volumeTime is how long a volume is measured: one whose files take longer to count is left out. All those of a reader together have
	// volumesTime, and then what was known before is shown.
	volumeTime, volumesTime = 2 * time.Second, 5 * time.Second
)

// volumeStats are the metrics of a kubelet about the volumes of claims.
type volumeStats struct {
	store   *store.Store
	measure func(ctx context.Context, volume string) (runtime.VolumeUsage, error)
	shown   []volumeStat

	mu       sync.Mutex // also keeps two readers from measuring the same
	measured map[string]measured
}

type volumeStat struct {
	desc  *prometheus.Desc
	value func(*runtime.VolumeUsage) int64
}

type measured struct {
	usage *runtime.VolumeUsage // nil: it could not be found in time
	at    time.Time
}

// ShowVolumes adds kubelet_volume_stats_*: what the claims use whose volumes jobd has created. It is called before Register.
func (m *Metrics) ShowVolumes(s *store.Store, measure func(ctx context.Context, volume string) (runtime.VolumeUsage, error)) {
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

// tooLong reports whether a volume could not be measured in time.
func (m measured) tooLong() bool { return m.usage == nil && !m.at.IsZero() }

// bound is a claim and its volume.
type bound struct{ namespace, name, volume string }

// Collect implements prometheus.Collector.
func (v *volumeStats) Collect(out chan<- prometheus.Metric) {
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
	known := v.know(all)
	for _, c := range all {
		if usage := known[c.volume].usage; usage != nil {
			for _, s := range v.shown {
				out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(s.value(usage)), c.namespace, c.name)
			}
		}
	}
}

// know measures those volumes of which too little is known, as long as there is time: those first that were measured longest ago, and last
// those that took too long.
func (v *volumeStats) know(all []bound) map[string]measured {
	v.mu.Lock()
	defer v.mu.Unlock()
	all = slices.SortedStableFunc(slices.Values(all), func(a, b bound) int {
		was, other := v.measured[a.volume], v.measured[b.volume]
		if was.tooLong() != other.tooLong() {
			return map[bool]int{true: 1, false: -1}[was.tooLong()]
		}
		return was.at.Compare(other.at)
	})
	known := make(map[string]measured, len(all))
	ctx, cancel := context.WithTimeout(context.Background(), volumesTime)
	defer cancel()
	for _, c := range all {
		m, ok := v.measured[c.volume]
		if (!ok || time.Since(m.at) > measuredFor) && ctx.Err() == nil {
			var err error
			if m, err = v.now(ctx, c.volume); err != nil {
				continue // it is none of jobd's own, or is being deleted
			}
			ok = true
		}
		if ok {
			known[c.volume] = m
		}
	}
	v.measured = known
	return known
}

// now measures a volume.
func (v *volumeStats) now(ctx context.Context, volume string) (measured, error) {
	ctx, cancel := context.WithTimeout(ctx, volumeTime)
	defer cancel()
	usage, err := v.measure(ctx, volume)
	switch {
	case err == nil:
		return measured{&usage, time.Now()}, nil
	case ctx.Err() != nil:
		return measured{nil, time.Now()}, nil
	}
	return measured{}, err
}
