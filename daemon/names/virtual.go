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
	"k8s.io/apimachinery/pkg/util/intstr"
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

// lead calls set with the ports of all Services and their endpoints, at first and after each change, until ctx ends. It calls
// tell when there is something new that namespaces have no room for.
func (x *index) lead(ctx context.Context, set func([]network.ServicePort) error, tell func(context.Context, leftOut), logger *slog.Logger) {
	told := map[leftOut]bool{}
	x.moved.RunAtLeisure(ctx, settle, func() bool {
		ports, left, known := x.servicePorts()
		if !known {
			return true
		}
		err := set(ports)
		if err != nil {
			logger.Warn("cannot update where the virtual addresses of Services lead", "error", err)
		}
		now := map[leftOut]bool{}
		for _, l := range left {
			if now[l] = true; !told[l] {
				logger.Warn("a namespace has no room for all that its Services lead to",
					"service", l.namespace+"/"+l.name, "because", l.why)
				tell(ctx, l)
			}
		}
		told = now
		return err == nil
	})
}

// servicePorts returns the ports of all Services that have virtual addresses, in order, without what their namespaces have no
// room for, which it returns too. It reports whether all endpoints are known.
func (x *index) servicePorts() (ports []network.ServicePort, left []leftOut, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.servicesShown || !x.slicesShown {
		return nil, nil, false
	}
	room := min(roomOfNamespace, roomInAll/max(1, len(x.services)))
	for namespace, services := range x.services {
		var all []leading
		for name, s := range services {
			if s.selector != nil && !x.podsShown {
				return nil, nil, false
			}
			if l := (leading{serviceRef{namespace, name, s.uid}, s.created, s.virtual(namespace, name)}); len(l.ports) > 0 {
				all = append(all, l)
			}
		}
		// What the ports alone take is known before the endpoints of each are looked for.
		left = append(left, fit(all, room)...)
		all = slices.DeleteFunc(all, func(l leading) bool { return len(l.ports) == 0 })
		for i := range all {
			x.findEndpoints(&all[i], room)
		}
		left = append(left, fit(all, room)...)
		for _, l := range all {
			ports = append(ports, l.ports...)
		}
	}
	slices.SortFunc(ports, func(a, b network.ServicePort) int { return cmp.Compare(a.Name, b.Name) })
	return ports, left, true
}

// target is what ports of a Service that lead to the same endpoints have in common.
type target struct {
	port     intstr.IntOrString
	protocol corev1.Protocol
}

// findEndpoints finds where the ports of a Service lead, but not many more endpoints than there is room for.
func (x *index) findEndpoints(l *leading, room int) {
	s := x.services[l.namespace][l.name]
	if s.selector == nil {
		x.toldOf(l, room)
		return
	}
	selected, found := x.selected(s, l.namespace), map[target][]netip.AddrPort{}
	for i := range l.ports {
		t := target{s.ports[i].TargetPort, s.ports[i].Protocol}
		if _, known := found[t]; !known {
			found[t] = podsOf(s, selected, &s.ports[i])
		}
		l.ports[i].Endpoints = found[t]
	}
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
			Name:      namespace + "/" + name + ":" + p.Name + "/" + string(p.Protocol),
			Namespace: namespace,
			Protocol:  p.Protocol, At: netip.AddrPortFrom(s.addr, uint16(p.Port)), External: s.hosts,
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

// toldOf finds the endpoints that clients' EndpointSlices have for the ports of a Service.
func (x *index) toldOf(l *leading, room int) {
	s := x.services[l.namespace][l.name]
	type name struct {
		name     string
		protocol corev1.Protocol
	}
	numbers, found := map[name]int{}, make([]map[netip.AddrPort]bool, len(l.ports))
	for i, p := range s.ports {
		numbers[name{p.Name, p.Protocol}] = i
		found[i] = map[netip.AddrPort]bool{}
	}
	of := x.slices[l.namespace]
	most := room/max(1, len(l.ports)) + 1 // so that it shows when there are too many
	for _, key := range slices.Sorted(maps.Keys(of)) {
		for _, p := range of[key].ports {
			i, known := numbers[name{ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, corev1.ProtocolTCP)}]
			if !known || p.Port == nil || len(found[i]) >= most {
				continue
			}
			for addr := range of[key].leads(s, l.name) {
				found[i][netip.AddrPortFrom(addr, uint16(*p.Port))] = true
			}
		}
	}
	for i := range l.ports {
		l.ports[i].Endpoints = slices.SortedFunc(maps.Keys(found[i]), netip.AddrPort.Compare)
	}
}

// canLead reports whether a Service may lead to an address, which loopback and link-local ones must not: from
// the host they would be its own.
func canLead(a netip.Addr) bool { return a.Is4() && a.IsGlobalUnicast() }
