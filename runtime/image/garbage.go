package image

import (
	"slices"
	"strings"
	"time"
)

// GCPolicy says which images go that no pod needs. Its settings are a kubelet's (KubeletConfiguration).
type GCPolicy struct {
	// HighThreshold is how full the disk may get, in percent, before images go for its sake (imageGCHighThresholdPercent);
	// they go until it is no fuller than LowThreshold (imageGCLowThresholdPercent). 100 is never.
	HighThreshold, LowThreshold int
	// MinAge is how long an image stays in any case after it was pulled or used (imageMinimumGCAge).
	MinAge time.Duration
	// MaxAge is how long an image stays without being used (imageMaximumGCAge), 0 is without a limit.
	MaxAge time.Duration
	// Imported lets images go too that no registry has given: nothing brings them back.
	Imported bool
}

// Disk is what holds the images, in bytes.
type Disk struct{ Capacity, Available int64 }

// candidate is an image as it is stored once, whatever names it has.
type candidate struct {
	names    []string
	pulled   bool // all of its names are known to a registry
	inUse    bool
	lastUsed time.Time // or pulled, or imported
}

// excess is how many bytes have to go from the disk, 0 if it has room.
func (p GCPolicy) excess(d Disk) int64 {
	if p.HighThreshold >= 100 || d.Capacity <= 0 {
		return 0
	}
	if used := d.Capacity - d.Available; used*100 < d.Capacity*int64(p.HighThreshold) {
		return 0
	}
	return max(0, d.Capacity*int64(100-p.LowThreshold)/100-d.Available)
}

// choose gives the images that have been here for too long, and those that may go besides if the disk needs it: the
// ones that have not been used for the longest time first.
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
