package names

import (
	"net/netip"
	"slices"

	"github.com/jobd/jobd/internal/multimap"
)

// places are the Services, pods and EndpointSlices that have an address. Without them a query for an address would cost a look
// at all pods for each Service, and every pod may ask.
type places struct {
	multimap.Map[netip.Addr, place]
}

type place struct {
	kind            placeKind
	namespace, name string
}

type placeKind byte

const (
	atService placeKind = iota
	atPod
	atSlice
)

func (p places) add(at place, addrs ...netip.Addr) {
	for _, addr := range addrs {
		if addr.IsValid() {
			p.Add(addr, at)
		}
	}
}

func (p places) remove(at place, addrs ...netip.Addr) {
	for _, addr := range addrs {
		p.Remove(addr, at)
	}
}

// clear removes all places of a kind.
func (p places) clear(kind placeKind) {
	for addr, all := range p.Map {
		for at := range all {
			if at.kind == kind {
				p.remove(at, addr)
			}
		}
	}
}

func (l slice) addresses() (addrs []netip.Addr) {
	for _, e := range l.endpoints {
		addrs = append(addrs, e.addr)
	}
	return addrs
}

// Reverse returns the names of an address in the cluster's domain, without the domain: a name for each Service that leads to
// it, or the Service's own name for a virtual address.
func (x *index) Reverse(addr netip.Addr) (all []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	in := func(at place, service string, e endpoint) {
		if x.services[at.namespace][service].addr != addr {
			all = append(all, e.name()+"."+service+"."+at.namespace+".svc")
		}
	}
	for at := range x.places.Map[addr] {
		switch at.kind {
		case atService:
			all = append(all, at.name+"."+at.namespace+".svc")
		case atPod:
			p := x.pods[at.namespace][at.name]
			for name, s := range x.services[at.namespace] {
				if s.selector != nil && s.leadsTo(p) {
					in(at, name, p.endpointOf(name))
				}
			}
		case atSlice:
			told := x.slices[at.namespace][at.name]
			s, ok := x.services[at.namespace][told.service]
			if !ok || s.selector != nil {
				continue
			}
			for leads, hostname := range told.leads(s, told.service) {
				if leads == addr {
					in(at, told.service, endpoint{addr: addr, hostname: hostname})
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// named returns whether a Service that selects pods leads to one that has an address and no hostname there.
func (x *index) named(namespace, name string, addr netip.Addr) bool {
	s := x.services[namespace][name]
	for at := range x.places.Map[addr] {
		if at.kind != atPod || at.namespace != namespace {
			continue
		}
		if p := x.pods[namespace][at.name]; s.leadsTo(p) && p.endpointOf(name).hostname == "" {
			return true
		}
	}
	return false
}
