package devices

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/api/podspec"
)

// asks holds how many devices of each kind a pod needs at a time.
func (d *Devices) asks(pod *corev1.Pod) (map[corev1.ResourceName]int, error) {
	d.mu.Lock()
	kinds := d.kinds
	d.mu.Unlock()
	out := map[corev1.ResourceName]int{}
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true}) {
		if quantity.Sign() <= 0 || !strings.Contains(string(name), "/") {
			continue
		}
		_, offered := kinds[d.whole(name)]
		if !offered && d.options.Missed != nil {
			missed, err := d.options.Missed(name)
			if err != nil {
				return nil, err
			}
			offered = missed
		}
		if offered {
			out[name] = int(podspec.Amount(quantity))
		}
	}
	return out, nil
}

// share shares devices out among the containers of a pod. Containers that run together have none in common: sidecars
// and then main containers take theirs from the front. An init container that ends before the next one starts lends its
// own from the end, where the sidecars that were started before it have none.
func (a Assigned) share(pod *corev1.Pod, kind corev1.ResourceName, devices []string) {
	give := func(c *corev1.Container, devices []string) {
		if len(devices) == 0 {
			return
		}
		if a[c.Name] == nil {
			a[c.Name] = map[corev1.ResourceName][]string{}
		}
		a[c.Name][kind] = devices
	}
	next := 0
	take := func(c *corev1.Container) {
		n := asked(c, kind)
		give(c, devices[next:next+n])
		next += n
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if podspec.IsSidecar(c) {
			take(c)
		} else {
			give(c, devices[len(devices)-asked(c, kind):])
		}
	}
	for i := range pod.Spec.Containers {
		take(&pod.Spec.Containers[i])
	}
}

// note notes of which devices a pod has shares.
func (a Assigned) note(kind corev1.ResourceName, devices []string) {
	if a[""] == nil {
		a[""] = map[corev1.ResourceName][]string{}
	}
	a[""][kind] = devices
}

func asked(c *corev1.Container, kind corev1.ResourceName) int {
	quantity := c.Resources.Requests[kind]
	return int(podspec.Amount(quantity))
}
