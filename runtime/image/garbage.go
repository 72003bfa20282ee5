package image

import (
	"slices"
	"strings"
	"time"
)

// GCPolicy says which unused images are removed. Its settings are a kubelet's (KubeletConfiguration).
type GCPolicy struct {
	// HighThreshold is how full the disk may get, in percent, before images are removed because of it
	// (imageGCHighThresholdPercent), until it is no fuller than LowThreshold. 100 means never.
	HighThreshold, LowThreshold int
	// MinAge is how long an image is kept in any case after it was pulled or used (imageMinimumGCAge).
	MinAge time.Duration
	// MaxAge is how long an unused image is kept (imageMaximumGCAge); 0 means forever.
	MaxAge time.Duration
	// Imported lets images be removed that no registry has given, and none can bring back.
	Imported bool
}

// Disk is the disk that has the images; sizes are in bytes.
type Disk struct{ Capacity, Available int64 }

// candidate is an image with all its names, since its content is stored once.
type candidate struct {
	names    []string
	pulled   bool // a registry knows all of its names
	inUse    bool
	lastUsed time.Time // or pulled, or imported
}

// excess returns how many bytes have to be freed; 0 if the disk has enough free space.
func (p GCPolicy) excess(d Disk) int64 {
	if p.HighThreshold >= 100 || d.Capacity <= 0 {
		return 0
	}
	if used := d.Capacity - d.Available; used*100 < d.Capacity*int64(p.HighThreshold) {
		return 0
	}
	return max(0, d.Capacity*int64(100-p.LowThreshold)/100-d.Available)
}

// choose returns the images that have been unused for too long, and those that may also be removed if the disk requires
// it, the least recently used first.
func (p GCPolicy) choose(all []candidate, now time.Time) (expired, spare []candidate) {
	for _, c := range all {
		idle := now.Sub(c.lastUsed)
		switch {
		case c.inUse, idle < p.MinAge, !c.pulled && !p.Imported:
		case p.MaxAge > 0 && idle > p.MaxAge:
			expired = append(expired, c)
		default:
			spare = append(spare, c)
		}
	}
	for _, list := range [][]candidate{expired, spare} {
		slices.SortFunc(list, func(a, b candidate) int {
			if order := a.lastUsed.Compare(b.lastUsed); order != 0 {
				return order
			}
			return strings.Compare(a.names[0], b.names[0])
		})
	}
	return expired, spare
}
