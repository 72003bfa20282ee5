// Package memory is the memory that pods share as package pressure watches over it: it measures what is left of it and what pods hold.
package memory

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/runtime"
)

// Runtime is what measures pods. What the kernel takes back before it ends processes counts for nobody.
type Runtime interface {
	Containers(ctx context.Context) ([]runtime.Status, error)
	Usage(podUID, id string) (runtime.Usage, error)
	// HeldByPods is what all pods hold, HeldByPod what one does that has containers with those IDs.
	HeldByPods() int64
	HeldByPod(podUID string, ids []string) int64
}

// Memory is what pods share. It implements pressure.Resource.
type Memory struct {
	Runtime Runtime
	// Limit is how much all pods together may have, in bytes; 0: all that the machine has.
	Limit int64
	// Outside returns what a pod holds that the kernel counts for no control group of its own: what its sockets hold, and files that jobd
	// has written for it. all is false where that is more than can be counted.
	Outside func(ctx context.Context, p *corev1.Pod) (bytes int64, all bool)
	// Left is what pods that are gone have left. It counts for each that runs in the same namespace.
	Left *Left
	// Machine returns how much memory the machine has, and what is left of it: ReadMachine.
	Machine func() (total, available int64, err error)
}

// ReadMachine returns how much memory this machine has, and how much processes may still take (/proc/meminfo, MemAvailable).
func ReadMachine() (total, available int64, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0, err
	}
	info, err := proc.Meminfo()
	if err != nil {
		return 0, 0, err
	}
	if info.MemTotalBytes == nil || info.MemAvailableBytes == nil {
		return 0, 0, errors.New("the kernel does not say how much memory is available")
	}
	return int64(*info.MemTotalBytes), int64(*info.MemAvailableBytes), nil
}

// Measure implements pressure.Resource. What is left is what pods may still take: of what they are held to, and of what others leave
// them, as a kubelet looks at both (memory.available of the node and of allocatable).
func (m Memory) Measure() (eviction.Supply, error) {
	total, available, err := m.Machine()
	if err == nil && m.Limit > 0 {
		total, available = m.Limit, min(available, m.Limit-m.Runtime.HeldByPods())
	}
	return eviction.Supply{Capacity: eviction.Size{Bytes: total}, Available: eviction.Size{Bytes: available}}, err
}

// Reclaim implements pressure.Resource: the kernel has taken back what it can.
func (m Memory) Reclaim(context.Context, time.Time) (wait bool) { return false }

// Uses implements pressure.Resource. What ended containers have left in volumes in memory belongs to the pod.
func (m Memory) Uses(ctx context.Context, pods []*corev1.Pod) (uses []eviction.Use) {
	uses, left := m.own(ctx, pods), m.Left.Of()
	for i := range uses {
		uses[i].Volumes.Bytes += left[uses[i].Pod.Namespace]
	}
	return uses
}

// own returns what pods use without what those before them have left.
func (m Memory) own(ctx context.Context, pods []*corev1.Pod) (uses []eviction.Use) {
	containers, err := m.Runtime.Containers(ctx)
	if err != nil {
		return nil
	}
	of := map[string][]runtime.Status{}
	for _, c := range containers {
		of[c.PodUID] = append(of[c.PodUID], c)
	}
	for _, p := range pods {
		uid, use, sum := string(p.UID), eviction.Use{Pod: p, Containers: map[string]eviction.Size{}}, int64(0)
		var ids []string
		for _, c := range of[uid] {
			ids = append(ids, c.ID)
			if used, err := m.Runtime.Usage(uid, c.ID); err == nil { // one that goes meanwhile uses nothing
				use.Containers[c.Name] = use.Containers[c.Name].Plus(eviction.Size{Bytes: used.Held})
				sum += used.Held
			}
		}
		outside, all := m.Outside(ctx, p)
		use.Volumes.Bytes, use.Partly = max(0, m.Runtime.HeldByPod(uid, ids)-sum)+outside, !all
		uses = append(uses, use)
	}
	return uses
}

// Holds implements pressure.Resource.
func (m Memory) Holds(ctx context.Context, p *corev1.Pod) bool {
	for _, use := range m.own(ctx, []*corev1.Pod{p}) {
		if use.Volumes.Bytes > 0 || len(use.Containers) > 0 {
			return true
		}
	}
	return false
}
