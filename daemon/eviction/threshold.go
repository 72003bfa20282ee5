// Package eviction decides when the disk of this machine is so full that pods are evicted, and which pod is first: a
// kubelet's node-pressure eviction, for the one disk that jobd keeps everything on.
//
// In come thresholds, what is left of the disk, and what each pod uses of it, all measured elsewhere. Out come whether
// there is pressure, and the pod to evict. Nothing here does I/O.
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
	nodeFsAvailable  Signal = "nodefs.available"
	nodeFsInodesFree Signal = "nodefs.inodesFree"
)

// Size is an amount of disk.
type Size struct{ Bytes, Inodes int64 }

// Plus returns the sum with another amount.
func (s Size) Plus(other Size) Size { return Size{s.Bytes + other.Bytes, s.Inodes + other.Inodes} }

// Disk is the file system that everything is on. Its capacity of inodes is 0 if it has no fixed number of them.
type Disk struct{ Capacity, Available Size }

// Threshold is how much must be left (KubeletConfiguration.EvictionHard).
type Threshold struct {
	Signal   Signal
	Quantity resource.Quantity
	Percent  float64 // of the capacity; 0: Quantity applies
}

// Parse parses thresholds in the format of a kubelet's --eviction-hard: "nodefs.available<10%,nodefs.inodesFree<1000".
// Without any there is never pressure.
func Parse(setting string) (all []Threshold, err error) {
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
		case t.Signal != nodeFsAvailable && t.Signal != nodeFsInodesFree:
			return nil, fmt.Errorf("%q is not known: %s or %s", t.Signal, nodeFsAvailable, nodeFsInodesFree)
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
	if s == nodeFsInodesFree {
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
func (t Threshold) amount(d Disk) int64 {
	if t.Percent > 0 {
		return int64(float64(t.Signal.of(d.Capacity)) * t.Percent / 100)
	}
	return t.Quantity.Value()
}

// Reserve returns how much must be left.
func Reserve(all []Threshold, d Disk) (reserve Size) {
	for _, t := range all {
		switch {
		case t.Signal.of(d.Capacity) <= 0: // the disk has no such limit
		case t.Signal == nodeFsInodesFree:
			reserve.Inodes = t.amount(d)
		default:
			reserve.Bytes = t.amount(d)
		}
	}
	return reserve
}

// Short returns the first threshold that is crossed, false if none is.
func Short(all []Threshold, d Disk) (Shortage, bool) {
	for _, t := range all {
		if t.Signal.of(d.Capacity) <= 0 {
			continue // the disk has no such limit
		}
		if s := (Shortage{t.Signal, t.amount(d), t.Signal.of(d.Available)}); s.Available < s.Threshold {
			return s, true
		}
	}
	return Shortage{}, false
}

// Near reports whether less than twice of what must be left is left, so that the disk should be measured often.
func Near(all []Threshold, d Disk) bool {
	return slices.ContainsFunc(all, func(t Threshold) bool {
		return t.Signal.of(d.Capacity) > 0 && t.Signal.of(d.Available) < 2*t.amount(d)
	})
}
