package names

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
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

// isAddress reports whether a name is that of an endpoint without a hostname.
func isAddress(name string) bool {
	_, err := netip.ParseAddr(strings.ReplaceAll(name, "-", "."))
	return err == nil
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
			e := endpoint{addr: p.addr, named: p.ports}
			if p.subdomain == name {
				e.hostname = p.hostname
			}
			if !yield(e) {
				return
			}
		}
	}
}

// Ports returns where a Service's port leads, its virtual address or else its endpoints, and whether the Service has that
// port. port is its name (ServicePort.Name), protocol is tcp, udp or sctp, and the name of the Service is as in Lookup.
// If both are empty all ports are meant, as in a cluster when a query has only the Service's name.
func (x *index) Ports(port, protocol, serviceName string) (all []nameserver.Port, found bool) {
	serviceName, ok := strings.CutSuffix(serviceName, ".svc")
	name, namespace, two := strings.Cut(serviceName, ".")
	if !ok || !two {
		return nil, false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.services[namespace][name]
	for _, p := range s.ports {
		if !isPort(p.Name, p.Protocol, port, protocol) {
			continue
		}
		found = true
		if s.addr.IsValid() {
			target := name + "." + namespace + ".svc"
			all = append(all, nameserver.Port{Target: target, Addr: s.addr, Number: uint16(p.Port)})
		}
	}
	if s.addr.IsValid() {
		return all, found
	}
	for e := range x.leads(namespace, name) {
		ports := e.ports
		if s.selector != nil {
			ports = portsOf(e.named, s.ports)
		}
		for _, p := range ports {
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

// Reverse returns the names that an address has in the cluster's domain, without the domain: one in each Service that
// leads to it, or that of the Service whose virtual address it is.
func (x *index) Reverse(addr netip.Addr) (all []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for namespace, services := range x.services {
		for name, s := range services {
			if s.addr == addr {
				all = append(all, name+"."+namespace+".svc")
				continue
			}
			for e := range x.leads(namespace, name) {
				if e.addr == addr {
					all = append(all, e.name()+"."+name+"."+namespace+".svc")
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
