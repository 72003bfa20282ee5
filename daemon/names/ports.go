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

// endpoint is a pod, or what an EndpointSlice of somebody else's names, as a Service leads to it.
type endpoint struct {
	addr     netip.Addr
	hostname string                     // "" if it has none in the Service
	named    []corev1.ContainerPort     // of a pod, those that have a name
	ports    []discoveryv1.EndpointPort // of one that is not ours
}

// name is the hostname, or else the address with dashes, as in a cluster.
func (e endpoint) name() string {
	if e.hostname != "" {
		return e.hostname
	}
	return strings.ReplaceAll(e.addr.String(), ".", "-")
}

// isAddress tells whether a name is that of an endpoint without a hostname.
func isAddress(name string) bool {
	_, err := netip.ParseAddr(strings.ReplaceAll(name, "-", "."))
	return err == nil
}

// leads are the endpoints of a Service. The index is locked meanwhile.
func (x *Index) leads(namespace, name string) iter.Seq[endpoint] {
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

// Ports gives where a port of a Service leads: NAME is that of the port, PROTOCOL tcp, udp or sctp, and the Service's name
// is as in Lookup. It tells whether the Service has such a port (ServicePort.Name). Both empty are all its ports, as a
// cluster answers who asks for no more than the Service's name.
func (x *Index) Ports(port, protocol, serviceName string) (all []nameserver.Port, found bool) {
	serviceName, ok := strings.CutSuffix(serviceName, ".svc")
	name, namespace, two := strings.Cut(serviceName, ".")
	if !ok || !two {
		return nil, false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.services[namespace][name]
	found = slices.ContainsFunc(s.ports, func(p corev1.ServicePort) bool { return isPort(p.Name, p.Protocol, port, protocol) })
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
	return port == "" && protocol == "" || name != "" && name == port && strings.EqualFold(string(cmp.Or(is, corev1.ProtocolTCP)), protocol)
}

// Reverse gives the names that an address has in the cluster's domain, without the domain: one in each Service that leads
// to it.
func (x *Index) Reverse(addr netip.Addr) (all []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for namespace, services := range x.services {
		for name := range services {
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
