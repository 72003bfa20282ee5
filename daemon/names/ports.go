package names

import (
	"cmp"
	"iter"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/runtime/network/nameserver"
)

// endpoint is an endpoint of a Service: a pod, or one of an EndpointSlice that a client manages.
type endpoint struct {
	addr     netip.Addr
	hostname string                     // "" if it has none in the Service
	named    []corev1.ContainerPort     // of a pod, those that have a name
	ports    []discoveryv1.EndpointPort // of an endpoint that is not a pod
}

// name returns the hostname, or else the address with dashes, as in a cluster.
func (e endpoint) name() string {
	if e.hostname != "" {
		return e.hostname
	}
	return strings.ReplaceAll(e.addr.String(), ".", "-")
}

// endpointOf returns a pod as an endpoint of a Service.
func (p pod) endpointOf(service string) endpoint {
	e := endpoint{addr: p.addr, named: p.ports}
	if p.subdomain == service {
		e.hostname = p.hostname
	}
	return e
}

// leads returns the endpoints of a Service. The index must be locked meanwhile.
func (x *index) leads(namespace, name string) iter.Seq[endpoint] {
	return func(yield func(endpoint) bool) {
		s, ok := x.services[namespace][name]
		if !ok {
			return // whatever EndpointSlices say
		}
		if s.selector == nil {
			x.told(s, namespace, name, yield)
			return
		}
		for _, p := range x.pods[namespace] {
			if !s.leadsTo(p) {
				continue
			}
			if !yield(p.endpointOf(name)) {
				return
			}
		}
	}
}

// Ports returns where a Service's port leads, its virtual address or else its endpoints, and whether the Service has that
// port. port is its name (ServicePort.Name), protocol is tcp, udp or sctp, and the name of the Service is as in Lookup.
// If both are empty all ports are meant, as in a cluster when a query has only the Service's name. It looks for no more than most.
func (x *index) Ports(port, protocol, serviceName string, most int) (all []nameserver.Port, found bool) {
	serviceName, ok := strings.CutSuffix(serviceName, ".svc")
	name, namespace, two := strings.Cut(serviceName, ".")
	if !ok || !two {
		return nil, false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.services[namespace][name]
	var meant []corev1.ServicePort
	for _, p := range s.ports {
		if isPort(p.Name, p.Protocol, port, protocol) && len(meant) < most {
			meant = append(meant, p)
		}
	}
	found = len(meant) > 0
	if s.addr.IsValid() {
		target := name + "." + namespace + ".svc"
		for _, p := range meant {
			all = append(all, nameserver.Port{Target: target, Addr: s.addr, Number: uint16(p.Port)})
		}
		return all, found
	}
	if !found && s.selector != nil {
		return nil, false
	}
	for e := range x.leads(namespace, name) {
		ports := e.ports
		if s.selector != nil {
			ports = portsOf(e.named, meant)
		}
		for _, p := range ports {
			if len(all) == most {
				return all, found
			}
			if p.Port != nil && isPort(ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, ""), port, protocol) {
				target := e.name() + "." + name + "." + namespace + ".svc"
				all, found = append(all, nameserver.Port{Target: target, Addr: e.addr, Number: uint16(*p.Port)}), true
			}
		}
	}
	return all, found
}

func isPort(name string, is corev1.Protocol, port, protocol string) bool {
	return port == "" && protocol == "" || name != "" && name == port &&
		strings.EqualFold(string(cmp.Or(is, corev1.ProtocolTCP)), protocol)
}
