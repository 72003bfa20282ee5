package network

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Policies are all NetworkPolicies in the form in which the kernel applies them: which pods are isolated, and what they
// may receive and send all the same.
type Policies struct {
	// Pods are the pods on the bridge, by their addresses.
	Pods map[netip.Addr]PolicyPod
	// Lists are what isolated pods may receive or send, by the names that PolicyPod has. A list is never changed under
	// the same name.
	Lists map[string][]Allowance
}

// PolicyPod is what policies make of one pod.
type PolicyPod struct {
	// Ingress and Egress name the lists of what the pod may receive and send. Empty: it is not isolated in that direction,
	// and everything is allowed.
	Ingress, Egress string
	// Groups names the groups of peers (Allowance.Group) to which the pod belongs, in order.
	Groups []string
	// Ports are those of its ports that policies name, in order.
	Ports []NamedPort
}

// NamedPort is a port of a pod's container that has a name.
type NamedPort struct {
	Name     string
	Protocol corev1.Protocol
	Number   uint16
}

// Allowance is what one peer, or one kind of peers, may send to a pod or receive from it.
type Allowance struct {
	// Group names the group of pods that are the peers. Empty: the peers are those in Blocks or, if Anyone is set, all.
	Group  string
	Blocks []AddressRange
	Anyone bool
	// Protocol of what is allowed; empty: all of them.
	Protocol corev1.Protocol
	// First and Last are the range of ports of the receiver; 0: all. With Name it is the receiver's port of that name.
	First, Last uint16
	Name        string
}

// AddressRange is a range of IPv4 addresses.
type AddressRange struct{ First, Last netip.Addr }

// Flow is what a connection begins with, after the addresses of Services and ports of the host have been translated.
type Flow struct {
	From, To netip.Addr
	Protocol corev1.Protocol // empty: one that has no ports
	Port     uint16          // of the receiver
}

// Allow reports whether policies let a new connection begin. The host's own connections are not subject to them.
func (p *Policies) Allow(f Flow) bool {
	if f.From == f.To {
		return true
	}
	sender, receiver := p.Pods[f.From], p.Pods[f.To]
	return (sender.Egress == "" || p.lists(sender.Egress, f.To, f)) &&
		(receiver.Ingress == "" || p.lists(receiver.Ingress, f.From, f))
}

// lists reports whether a list has a flow from or to a peer.
func (p *Policies) lists(name string, peer netip.Addr, f Flow) bool {
	return slices.ContainsFunc(p.Lists[name], func(a Allowance) bool {
		switch {
		case a.Group != "":
			if !slices.Contains(p.Pods[peer].Groups, a.Group) {
				return false
			}
		case !a.Anyone:
			if !slices.ContainsFunc(a.Blocks, func(r AddressRange) bool { return r.contains(peer) }) {
				return false
			}
		}
		switch {
		case a.Protocol == "":
			return true
		case a.Protocol != f.Protocol:
			return false
		case a.Name != "":
			return slices.Contains(p.Pods[f.To].Ports, NamedPort{a.Name, f.Protocol, f.Port})
		}
		return a.First == 0 || a.First <= f.Port && f.Port <= a.Last
	})
}

func (r AddressRange) contains(a netip.Addr) bool {
	return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// equal reports whether the kernel would have the same rules.
func (p *Policies) equal(q *Policies) bool { return maps.EqualFunc(p.Pods, q.Pods, PolicyPod.equal) }

// isolated reports whether the pod is isolated in some direction.
func (p PolicyPod) isolated() bool { return p.Ingress != "" || p.Egress != "" }

func (p PolicyPod) equal(q PolicyPod) bool {
	return p.Ingress == q.Ingress && p.Egress == q.Egress && slices.Equal(p.Groups, q.Groups) && slices.Equal(p.Ports, q.Ports)
}

// Ranges returns the addresses of an IPv4 network without those of others; none if it is not one of IPv4.
func Ranges(block netip.Prefix, except ...netip.Prefix) (left []AddressRange) {
	if !block.Addr().Is4() {
		return nil
	}
	var holes []AddressRange
	for _, e := range except {
		if e.Addr().Is4() && e.Overlaps(block) {
			holes = append(holes, rangeOf(e))
		}
	}
	rest := rangeOf(block)
	for _, hole := range Merge(holes) {
		if rest.First.Less(hole.First) {
			left = append(left, AddressRange{rest.First, hole.First.Prev()})
		}
		if !hole.Last.Less(rest.Last) {
			return left
		}
		rest.First = hole.Last.Next()
	}
	return append(left, rest)
}

func rangeOf(p netip.Prefix) AddressRange {
	first := p.Masked().Addr()
	return AddressRange{first, add(first, uint32(1<<(32-p.Bits())-1))}
}

// Merge returns the addresses that are in at least one of the ranges, as ranges in order between which there are gaps.
func Merge(ranges []AddressRange) (merged []AddressRange) {
	ranges = slices.SortedFunc(slices.Values(ranges), func(a, b AddressRange) int {
		return cmp.Or(a.First.Compare(b.First), a.Last.Compare(b.Last))
	})
	for _, r := range ranges {
		if n := len(merged); n > 0 && (merged[n-1].contains(r.First) || merged[n-1].Last.Next() == r.First) {
			if merged[n-1].Last.Less(r.Last) {
				merged[n-1].Last = r.Last
			}
			continue
		}
		merged = append(merged, r)
	}
	return merged
}
