package names

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
)

const (
	// manager is the manager that the label of our EndpointSlices names: that of a cluster.
	manager = "endpointslice-controller.k8s.io"
	// sliceSize is how many endpoints a slice has at most, as in a cluster.
	sliceSize = 100
)

func isOurs(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == manager
}

// endpointsOf returns the endpoints of a Service: the pods that it selects, grouped by their ports.
func (x *index) endpointsOf(s *corev1.Service) []group {
	x.mu.RLock()
	defer x.mu.RUnlock()
	known := newService(s)
	if known.selector == nil {
		return nil
	}
	var groups []group
	for _, name := range slices.Sorted(maps.Keys(x.pods[s.Namespace])) {
		p := x.pods[s.Namespace][name]
		if !known.selector.Matches(p.labels) {
			continue
		}
		ports := portsOf(p.ports, s.Spec.Ports)
		i := slices.IndexFunc(groups, func(g group) bool { return equality.Semantic.DeepEqual(g.ports, ports) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{ports: ports})
		}
		groups[i].endpoints = append(groups[i].endpoints, p.endpoint(s, name))
	}
	if len(groups) == 0 {
		groups = []group{{}} // for an empty slice, which shows that there are no endpoints
	}
	return groups
}

// group are endpoints that have the same ports.
type group struct {
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// portsOf resolves the target ports of a Service (ServicePort.TargetPort) by a pod's named ports.
func portsOf(named []corev1.ContainerPort, of []corev1.ServicePort) (ports []discoveryv1.EndpointPort) {
	for i := range of {
		port := &of[i]
		number, ok := core.TargetPort(named, port)
		if !ok {
			continue
		}
		ports = append(ports, discoveryv1.EndpointPort{
			Name: ptr.To(port.Name), Protocol: ptr.To(port.Protocol), Port: ptr.To(number),
			AppProtocol: port.AppProtocol,
		})
	}
	return ports
}

func (p pod) endpoint(s *corev1.Service, name string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{p.addr.String()},
		Conditions: discoveryv1.EndpointConditions{
			Ready: ptr.To(p.ready() || s.Spec.PublishNotReadyAddresses), Serving: ptr.To(p.serving),
			Terminating: ptr.To(p.terminating),
		},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: name, UID: p.uid},
		NodeName:  ptr.To(p.node),
	}
	if p.hostname != "" && p.subdomain == s.Name {
		e.Hostname = ptr.To(p.hostname)
	}
	return e
}

// arrange updates the slices of a Service, and changes as few as possible: endpoints stay in their slices, and new ones
// are added to a slice that is not full. It returns the slices to be written, new ones without a name, and those to be
// removed.
func arrange(
	s *corev1.Service, groups []group, have []*discoveryv1.EndpointSlice,
) (write, remove []*discoveryv1.EndpointSlice) {
	free := slices.Clone(have)
	for _, g := range groups {
		wanted := map[string]discoveryv1.Endpoint{}
		for _, e := range g.endpoints {
			wanted[e.TargetRef.Name] = e
		}
		var mine []*discoveryv1.EndpointSlice
		free = slices.DeleteFunc(free, func(old *discoveryv1.EndpointSlice) bool {
			if !equality.Semantic.DeepEqual(old.Ports, g.ports) {
				return false
			}
			slice := old.DeepCopy()
			slice.Endpoints = nil
			for _, e := range old.Endpoints {
				if e.TargetRef == nil {
					continue
				}
				if now, ok := wanted[e.TargetRef.Name]; ok {
					slice.Endpoints = append(slice.Endpoints, now)
					delete(wanted, e.TargetRef.Name)
				}
			}
			mine = append(mine, slice)
			return true
		})
		for _, e := range g.endpoints {
			if _, missing := wanted[e.TargetRef.Name]; !missing {
				continue
			}
			i := slices.IndexFunc(mine, func(s *discoveryv1.EndpointSlice) bool { return len(s.Endpoints) < sliceSize })
			if i < 0 {
				i = len(mine)
				mine = append(mine, &discoveryv1.EndpointSlice{Ports: g.ports})
			}
			mine[i].Endpoints = append(mine[i].Endpoints, e)
		}
		if len(mine) == 0 {
			mine = append(mine, &discoveryv1.EndpointSlice{Ports: g.ports})
		}
		kept := 0
		for _, slice := range mine {
			describe(slice, s)
			at := slices.IndexFunc(have, func(h *discoveryv1.EndpointSlice) bool { return h.Name == slice.Name })
			switch {
			case len(slice.Endpoints) == 0 && kept+len(g.endpoints) > 0:
				free = append(free, slice) // the other slices have all endpoints
				continue
			case at < 0 || !equality.Semantic.DeepEqual(have[at], slice):
				write = append(write, slice)
			}
			kept++
		}
	}
	for _, slice := range free {
		if slice.Name != "" {
			remove = append(remove, slice)
		}
	}
	return write, remove
}

// describe sets the metadata of a slice of a Service.
func describe(slice *discoveryv1.EndpointSlice, s *corev1.Service) {
	slice.Namespace, slice.GenerateName = s.Namespace, s.Name+"-"
	slice.AddressType = discoveryv1.AddressTypeIPv4
	slice.Labels = map[string]string{}
	maps.Copy(slice.Labels, s.Labels)
	slice.Labels[discoveryv1.LabelServiceName], slice.Labels[discoveryv1.LabelManagedBy] = s.Name, manager
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
		slice.Labels[corev1.IsHeadlessService] = ""
	}
	slice.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(s, corev1.SchemeGroupVersion.WithKind("Service")),
	}
}
