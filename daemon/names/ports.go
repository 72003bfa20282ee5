package names

import (
	"cmp"
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
	hostname string // or its address with dashes, as a cluster names one that has no hostname
	addr     netip.Addr
	ports    []discoveryv1.EndpointPort
}

// newEndpoint has the name that a cluster gives it.
func newEndpoint(hostname string, addr netip.Addr, ports []discoveryv1.EndpointPort) endpoint {
	return endpoint{cmp.Or(hostname, strings.ReplaceAll(addr.String(), ".", "-")), addr, ports}
}

// isAddress tells whether a hostname is the one that newEndpoint gives what has none.
func isAddress(hostname string) bool {
	_, err := netip.ParseAddr(strings.ReplaceAll(hostname, "-", "."))
	return err == nil
}

// leads are the endpoints of a Service. The index is locked.
func (x *Index) leads(namespace, name string) (all []endpoint) {
	s, ok := x.services[namespace][name]
	if !ok {
		return nil // whatever EndpointSlices say
	}
	for _, p := range x.pods[namespace] {
		if s.leadsTo(p) {
			hostname := ""
			if p.subdomain == name {
				hostname = p.hostname
			}
			all = append(all, newEndpoint(hostname, p.addr, p.portsOf(s.ports)))
		}
	}
	return append(all, x.told(s, namespace, name)...)
}

// Ports gives where a port of a Service leads: NAME is that of the port, PROTOCOL tcp, udp or sctp, and the Service's name
// is as in Lookup. It tells whether the Service has such a port (ServicePort.Name).
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
	for _, e := range x.leads(namespace, name) {
		for _, p := range e.ports {
			if p.Port != nil && isPort(ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, ""), port, protocol) {
				target := e.hostname + "." + name + "." + namespace + ".svc"
				all, found = append(all, nameserver.Port{Target: target, Addr: e.addr, Number: uint16(*p.Port)}), true
			}
		}
	}
	return all, found
}

func isPort(name string, is corev1.Protocol, port, protocol string) bool {
	return name != "" && name == port && strings.EqualFold(string(cmp.Or(is, corev1.ProtocolTCP)), protocol)
}

// Reverse gives the names that an address has in the cluster's domain, without the domain: one in each Service that leads
// to it.
func (x *Index) Reverse(addr netip.Addr) (all []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for namespace, services := range x.services {
		for name := range services {
			for _, e := range x.leads(namespace, name) {
				if e.addr == addr {
					all = append(all, e.hostname+"."+name+"."+namespace+".svc")
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
