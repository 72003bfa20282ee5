package names

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/runtime/network"
)

// settle is the time between two changes of the rules: changes of pods that come together make one.
const settle = 100 * time.Millisecond

func (x *index) allServicesShown() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.servicesShown = true
	x.moved.Send()
}

func (x *index) allSlicesShown() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slicesShown = true
	x.moved.Send()
}

// lead calls set with the ports of all Services and their endpoints, at first and after each change, until ctx ends.
func (x *index) lead(ctx context.Context, set func([]network.ServicePort) error, logger *slog.Logger) {
	x.moved.Run(ctx, settle, func() bool {
		ports, known := x.servicePorts()
		if !known {
			return true
		}
		err := set(ports)
		if err != nil {
			logger.Warn("cannot update where the virtual addresses of Services lead", "error", err)
		}
		return err == nil
	})
}

// servicePorts returns the ports of all Services that have virtual addresses, in order, and reports whether all their
// endpoints are known.
func (x *index) servicePorts() (ports []network.ServicePort, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.servicesShown || !x.slicesShown {
		return nil, false
	}
	for namespace, services := range x.services {
		for name, s := range services {
			if s.selector != nil && !x.podsShown {
				return nil, false
			}
			selected := x.selected(s, namespace)
			for i, port := range s.virtual(namespace, name) {
				if s.selector != nil {
					port.Endpoints = podsOf(s, selected, &s.ports[i])
				} else {
					port.Endpoints = x.toldOf(s, namespace, name, &s.ports[i])
				}
				ports = append(ports, port)
			}
		}
	}
	slices.SortFunc(ports, func(a, b network.ServicePort) int { return cmp.Compare(a.Name, b.Name) })
	return ports, true
}

// ServicePorts returns the ports of a Service that has a virtual address, without their endpoints.
func ServicePorts(s *corev1.Service) []network.ServicePort {
	return newService(s).virtual(s.Namespace, s.Name)
}

// virtual returns the ports of a Service at its virtual address, without their endpoints; nil if it has none.
func (s service) virtual(namespace, name string) (ports []network.ServicePort) {
	if !s.addr.IsValid() {
		return nil
	}
	for _, p := range s.ports {
		ports = append(ports, network.ServicePort{
			Name:     namespace + "/" + name + ":" + p.Name + "/" + string(p.Protocol),
			Protocol: p.Protocol, At: netip.AddrPortFrom(s.addr, uint16(p.Port)), External: s.hosts,
			NodePort: uint16(p.NodePort), Affinity: s.affinity,
		})
	}
	return ports
}

// selected returns the pods that a Service with a virtual address selects.
func (x *index) selected(s service, namespace string) (all []pod) {
	if s.selector == nil || !s.addr.IsValid() {
		return nil
	}
	for _, p := range x.pods[namespace] {
		if s.selector.Matches(p.labels) {
			all = append(all, p)
		}
	}
	return all
}

// podsOf returns the endpoints of a port that are among the pods that its Service selects: those that are ready or, if
// there are none, those that still serve although they are being deleted.
func podsOf(s service, selected []pod, port *corev1.ServicePort) []netip.AddrPort {
	ready, ending := map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
	for _, p := range selected {
		number, ok := core.TargetPort(p.ports, port)
		if !ok || !canLead(p.addr) {
			continue
		}
		switch at := netip.AddrPortFrom(p.addr, uint16(number)); {
		case p.ready() || s.unready:
			ready[at] = true
		case p.serving:
			ending[at] = true
		}
	}
	if len(ready) == 0 {
		ready = ending
	}
	return slices.SortedFunc(maps.Keys(ready), netip.AddrPort.Compare)
}

// toldOf returns the endpoints of a port that clients' EndpointSlices have.
func (x *index) toldOf(s service, namespace, name string, port *corev1.ServicePort) []netip.AddrPort {
	found := map[netip.AddrPort]bool{}
	x.told(s, namespace, name, func(e endpoint) bool {
		for _, p := range e.ports {
			if p.Port != nil && ptr.Deref(p.Name, "") == port.Name && canLead(e.addr) &&
				ptr.Deref(p.Protocol, corev1.ProtocolTCP) == port.Protocol {
				found[netip.AddrPortFrom(e.addr, uint16(*p.Port))] = true
			}
		}
		return true
	})
	return slices.SortedFunc(maps.Keys(found), netip.AddrPort.Compare)
}

// canLead reports whether a virtual address may lead to an address, which loopback and link-local ones must not: from
// the host they would be its own.
func canLead(a netip.Addr) bool { return a.Is4() && a.IsGlobalUnicast() }
