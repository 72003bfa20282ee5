package gpus

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/runtime/nvidia"
)

// used is what a pod has used of its devices, as far as it was looked at.
type used struct {
	busy float64 // seconds in which a device computed, of all that it has for itself
	peak int64   // the most memory of cards that its processes had at a time, in bytes
}

// measure adds what pods use now to what they have used since the look before. w.mu must be held.
func (w *Watcher) measure(before view) {
	span := time.Duration(0)
	if before.report != nil {
		span = min(w.now.report.At.Sub(before.report.At), 3*period)
	}
	of := func(pod string) *used {
		if w.pods[pod] == nil {
			w.pods[pod] = &used{}
		}
		return w.pods[pod]
	}
	memory := map[string]int64{}
	for _, u := range w.now.uses {
		if u.Pod != "" && u.Memory > 0 {
			memory[u.Pod] += u.Memory
		}
	}
	for pod, n := range memory {
		of(pod).peak = max(of(pod).peak, n)
	}
	cards := w.o.Devices.Cards()
	for name, pods := range w.o.Devices.Holders() {
		for pod, shares := range pods {
			for _, part := range partsOf(cards[name], w.now.report, w.now.caps) {
				if shares == 0 && part.gpu.Utilization > 0 && part.instance.gpu == nvidia.Unknown {
					of(pod).busy += float64(part.gpu.Utilization) / 100 * span.Seconds()
				}
			}
		}
	}
}

// Of returns what a pod has had of GPUs: of the kinds whose name says that they are some.
func (w *Watcher) Of(pod *corev1.Pod) (g history.GPUs) {
	for name, quantity := range podresource.PodRequests(pod, podresource.PodResourcesOptions{ExcludeOverhead: true}) {
		if domain, _, ok := strings.Cut(string(name), "/"); !ok || domain == "" {
			continue
		}
		kind, shares := w.o.Devices.Whole(name)
		if _, class, _ := strings.Cut(string(kind), "/"); class == "gpu" {
			g.Count += float64(podspec.Amount(quantity)) / float64(max(1, shares))
		}
	}
	if g.Count == 0 {
		return g
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if u := w.pods[string(pod.UID)]; u != nil {
		g.Busy, g.Peak = time.Duration(u.busy*float64(time.Second)), u.peak
	}
	return g
}
