// Package eviction decides when the disk of this machine is so full that pods have to make way, and which of them goes
// first: a kubelet's node-pressure eviction, for the one disk that jobd keeps everything on. It only decides: what there is
// of the disk and what pods take of it is measured elsewhere.
package eviction

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is what a threshold is for, by a kubelet's name.
type Signal string

const (
	NodeFsAvailable  Signal = "nodefs.available"
	NodeFsInodesFree Signal = "nodefs.inodesFree"
)

// Size is an amount of disk.
type Size struct{ Bytes, Inodes int64 }

// Plus adds another amount.
func (s Size) Plus(other Size) Size { return Size{s.Bytes + other.Bytes, s.Inodes + other.Inodes} }

// Disk is the file system that everything is on. One without a fixed number of inodes has a capacity of none.
type Disk struct{ Capacity, Available Size }

// Threshold is how little may be left (KubeletConfiguration.EvictionHard).
type Threshold struct {
	Signal   Signal
	Quantity resource.Quantity
	Percent  float64 // of the capacity, where there is no quantity
}

// Parse reads thresholds as a kubelet's --eviction-hard has them: "nodefs.available<10%,nodefs.inodesFree<1000". Without
// any there is never pressure.
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
		case t.Signal != NodeFsAvailable && t.Signal != NodeFsInodesFree:
			return nil, fmt.Errorf("%q is not known: %s or %s", t.Signal, NodeFsAvailable, NodeFsInodesFree)
		case slices.ContainsFunc(all, func(other Threshold) bool { return other.Signal == t.Signal }):
			return nil, fmt.Errorf("%s stands there twice", t.Signal)
		}
		if percent, ok := strings.CutSuffix(value, "%"); ok {
			t.Percent, err = strconv.ParseFloat(percent, 64)
			if err != nil || !(t.Percent >= 0 && t.Percent < 100) {
				return nil, fmt.Errorf("%s: %q is not a part of the whole, such as 1%%", t.Signal, value)
			}
		} else if t.Quantity, err = resource.ParseQuantity(value); err != nil || t.Quantity.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is neither an amount nor a percentage", t.Signal, value)
		}
		all = append(all, t)
	}
	return all, nil
}

// of gives the part of a size that the signal is about.
func (s Signal) of(size Size) int64 {
	if s == NodeFsInodesFree {
		return size.Inodes
	}
	return size.Bytes
}

// Resource is what a pod is said to have taken too much of.
func (s Signal) Resource() corev1.ResourceName {
	if s == NodeFsInodesFree {
		return "inodes"
	}
	return corev1.ResourceEphemeralStorage
}

// Shortage is a threshold that is met.
type Shortage struct {
	Signal               Signal
	Threshold, Available int64
}

// amount is how much has to be left at least.
func (t Threshold) amount(d Disk) int64 {
	if t.Percent > 0 {
		return int64(float64(t.Signal.of(d.Capacity)) * t.Percent / 100)
	}
	return t.Quantity.Value()
}

// Short tells which threshold is met first; false if none is.
func Short(all []Threshold, d Disk) (Shortage, bool) {
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

// Near tells whether so little is left that it should be looked at often: twice what must be left, or less.
func Near(all []Threshold, d Disk) bool {
	return slices.ContainsFunc(all, func(t Threshold) bool {
		return t.Signal.of(d.Capacity) > 0 && t.Signal.of(d.Available) < 2*t.amount(d)
	})
}
