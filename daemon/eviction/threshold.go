// Package eviction decides when so little is left of the disk or the memory that pods are evicted, and which pod is first: a
// kubelet's node-pressure eviction, for the one disk that jobd keeps everything on and the memory that pods share.
//
// In come thresholds, what is left, and what each pod uses of it, all measured elsewhere. Out come whether there is pressure,
// and the pod to evict. Nothing here does I/O.
package eviction

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/internal/quantity"
)

// Signal is what a threshold is about, by a kubelet's name.
type Signal string

const (
	memoryAvailable  Signal = "memory.available"
	nodeFsAvailable  Signal = "nodefs.available"
	nodeFsInodesFree Signal = "nodefs.inodesFree"
)

var signals = []Signal{memoryAvailable, nodeFsAvailable, nodeFsInodesFree}

// Size is an amount of disk, or of memory, which has no inodes.
type Size struct{ Bytes, Inodes int64 }

// Plus returns the sum with another amount.
func (s Size) Plus(other Size) Size { return Size{s.Bytes + other.Bytes, s.Inodes + other.Inodes} }

// Supply is how much there is of what pods share, and what is left of it. A file system without a fixed number of inodes has a capacity
// of 0.
type Supply struct{ Capacity, Available Size }

// Threshold is how much must be left (KubeletConfiguration.EvictionHard).
type Threshold struct {
	Signal   Signal
	Quantity resource.Quantity
	Percent  float64 // of the capacity; 0: Quantity applies
}

// Thresholds are those of what pods share. Without any there is never pressure.
type Thresholds struct{ Disk, Memory []Threshold }

// Parse parses thresholds in the format of a kubelet's --eviction-hard: "memory.available<100Mi,nodefs.available<10%".
func Parse(setting string) (Thresholds, error) {
	all, err := parse(setting)
	var t Thresholds
	for _, one := range all {
		if one.Signal == memoryAvailable {
			t.Memory = append(t.Memory, one)
		} else {
			t.Disk = append(t.Disk, one)
		}
	}
	return t, err
}

func parse(setting string) (all []Threshold, err error) {
	for one := range strings.SplitSeq(setting, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		name, value, ok := strings.Cut(one, "<")
		t := Threshold{Signal: Signal(strings.TrimSpace(name))}
		value = strings.TrimSpace(value)
		switch {
		case !ok:
			return nil, fmt.Errorf("%q is not like nodefs.available<1%%", one)
		case !slices.Contains(signals, t.Signal):
			return nil, fmt.Errorf("%q is not known: it is one of %v", t.Signal, signals)
		case slices.ContainsFunc(all, func(other Threshold) bool { return other.Signal == t.Signal }):
			return nil, fmt.Errorf("%s stands there twice", t.Signal)
		}
		if percent, ok := strings.CutSuffix(value, "%"); ok {
			t.Percent, err = strconv.ParseFloat(percent, 64)
			if err != nil || !(t.Percent >= 0 && t.Percent < 100) {
				return nil, fmt.Errorf("%s: %q is not a part of the whole, such as 1%%", t.Signal, value)
			}
		} else if t.Quantity, err = quantity.Parse(value); err != nil || t.Quantity.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is neither an amount nor a percentage", t.Signal, value)
		}
		all = append(all, t)
	}
	return all, nil
}

// of returns the bytes or the inodes of a size, whichever the signal is about.
func (s Signal) of(size Size) int64 {
	if s == nodeFsInodesFree {
		return size.Inodes
	}
	return size.Bytes
}

// Resource returns the resource that a pod has used too much of, as messages name it.
func (s Signal) Resource() corev1.ResourceName {
	switch s {
	case memoryAvailable:
		return corev1.ResourceMemory
	case nodeFsInodesFree:
		return "inodes"
	}
	return corev1.ResourceEphemeralStorage
}

// Shortage is a threshold that has been crossed.
type Shortage struct {
	Signal               Signal
	Threshold, Available int64
}

// String says how much there is, and how much there must be: "nodefs.available is 12Mi, below 38Mi".
func (s Shortage) String() string {
	format := resource.BinarySI
	if s.Signal == nodeFsInodesFree {
		format = resource.DecimalSI
	}
	amount := func(n int64) string {
		if n = max(n, 0); format == resource.BinarySI && n > 1<<20 {
			n &^= 1<<20 - 1 // the bytes would only be hard to read
		}
		return resource.NewQuantity(n, format).String()
	}
	return fmt.Sprintf("%s is %s, below %s", s.Signal, amount(s.Available), amount(s.Threshold))
}

// amount returns how much must be left.
func (t Threshold) amount(d Supply) int64 {
	if t.Percent > 0 {
		return int64(float64(t.Signal.of(d.Capacity)) * t.Percent / 100)
	}
	return t.Quantity.Value()
}

// Reserve returns how much must be left.
func Reserve(all []Threshold, d Supply) (reserve Size) {
	for _, t := range all {
		switch {
		case t.Signal.of(d.Capacity) <= 0: // there is no such limit
		case t.Signal == nodeFsInodesFree:
			reserve.Inodes = t.amount(d)
		default:
			reserve.Bytes = t.amount(d)
		}
	}
	return reserve
}

// Short returns the first threshold that is crossed, false if none is.
func Short(all []Threshold, d Supply) (Shortage, bool) {
	for _, t := range all {
		if t.Signal.of(d.Capacity) <= 0 {
			continue // there is no such limit
		}
		if s := (Shortage{t.Signal, t.amount(d), t.Signal.of(d.Available)}); s.Available < s.Threshold {
			return s, true
		}
	}
	return Shortage{}, false
}

// Near reports whether less than twice of what must be left is left, so that it should be measured often.
func Near(all []Threshold, d Supply) bool {
	return slices.ContainsFunc(all, func(t Threshold) bool {
		return t.Signal.of(d.Capacity) > 0 && t.Signal.of(d.Available) < 2*t.amount(d)
	})
}
