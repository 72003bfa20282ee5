package network

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const (
	// policiesSuffix makes the names of the nft tables of NetworkPolicies from that of the bridge.
	policiesSuffix = "-policies"
	// afterGuard is the priority of the chain that sees frames which guardFrames has let pass.
	afterGuard = bridgedFirst + 1
)

// policyState is the state of the nft tables of NetworkPolicies.
type policyState struct {
	// writing is held while the tables are changed, which may take the kernel long; Network.mu, which the start of every
	// pod needs, is not held meanwhile. It guards what follows, and is locked before Network.mu.
	writing sync.Mutex
	// wanted is what SetPolicies was called with last.
	wanted *Policies
	// applied is what the kernel has; nil if that is not known.
	applied *Policies
	// sets are the names of the sets that applied has.
	sets map[string]bool
	// before are the addresses that may have connections which are older than the tracking of the kernel, with the pods
	// that had them at that time. A pod that gets such an address later has no such connections.
	before map[netip.Addr]string
	// api is the port of the API that the rules were made for.
	api uint16
}

// Addresses returns the addresses of the pods that are on the bridge, by their UIDs.
func (n *Network) Addresses() map[string]netip.Addr {
	if n.bridge == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.addresses.owned)
}

// SetPolicies makes the kernel apply NetworkPolicies; nil: there are none. What is passed must not be changed afterwards.
// The rules change in one transaction, and apply to new connections: those of TCP and SCTP that are established stay.
// Without a bridge it does nothing.
func (n *Network) SetPolicies(p *Policies) error {
	if n.bridge == nil {
		return nil
	}
	s := &n.policies
	s.writing.Lock()
	defer s.writing.Unlock()
	n.mu.Lock()
	gone := n.mode != Bridge && n.addresses.none()
	n.mu.Unlock()
	if gone {
		p = nil // the bridge is gone with its last pod
	}
	if p != nil && s.applied != nil && p.equal(s.applied) {
		return nil
	}
	was := s.applied
	s.wanted = p
	if p == nil {
		s.applied, s.sets, s.before = nil, nil, nil // even if only one table can be removed
		if err := removePolicies(n.bridge.name); err != nil {
			return fmt.Errorf("network: policies: %w", err)
		}
		return nil
	}
	if err := n.writePolicies(); err != nil {
		s.applied = nil
		return fmt.Errorf("network: policies: %w", err)
	}
	if was == nil || tightened(was, p) {
		if err := n.bridge.endForbidden(p); err != nil {
			n.logger.Warn("cannot end conversations that policies forbid", "error", err)
		}
	}
	return nil
}

// removePolicies removes the nft tables of NetworkPolicies of a bridge.
func removePolicies(bridge string) error {
	return errors.Join(removeTable(bridge+policiesSuffix, nftables.TableFamilyBridge),
		removeTable(bridge+policiesSuffix, nftables.TableFamilyIPv4))
}

// tightened reports whether a pod that was there is gone or treated in another way.
func tightened(was, now *Policies) bool {
	for at, p := range was.Pods {
		if q, ok := now.Pods[at]; !ok || !p.equal(q) {
			return true
		}
	}
	return false
}

// endForbidden makes the kernel forget what it tracks of protocols without connections, such as UDP, if it could not begin
// now, except for what the host has begun: it lasts as long as somebody sends. So does what belongs to an address that no
// pod has: it must not pass to the next one that gets it.
func (b *bridge) endForbidden(p *Policies) error {
	host, err := hostAddresses()
	if err != nil {
		return err
	}
	nobody := func(a netip.Addr) bool {
		_, taken := p.Pods[a]
		return b.subnet.Contains(a) && a != b.address && !taken
	}
	return forget(func(f *netlink.ConntrackFlow) bool {
		from, ok := netip.AddrFromSlice(f.Forward.SrcIP.To4())
		to, leads := netip.AddrFromSlice(f.Reverse.SrcIP.To4()) // after the translation of Services
		begun := Flow{From: from, To: to, Port: f.Reverse.SrcPort}
		switch f.Forward.Protocol {
		case unix.IPPROTO_TCP, unix.IPPROTO_SCTP:
			return false
		case unix.IPPROTO_UDP:
			begun.Protocol = corev1.ProtocolUDP
		}
		return ok && leads && (nobody(from) || nobody(to) || !isLocal(host, f.Forward.SrcIP) && !p.Allow(begun))
	})
}

// rewritePolicies writes the tables, if there are some, after the port of the API has changed.
func (n *Network) rewritePolicies() error {
	n.policies.writing.Lock()
	defer n.policies.writing.Unlock()
	if n.policies.applied == nil {
		return nil
	}
	return n.writePolicies()
}

// writePolicies brings the nft tables of NetworkPolicies up to date.
func (n *Network) writePolicies() error {
	s := &n.policies
	n.mu.Lock()
	api, owner := n.api, maps.Clone(n.addresses.owner)
	n.mu.Unlock()
	conn, err := openNFT()
	if err != nil {
		return err
	}
	w := &policyWriter{
		table:  &table{conn, &nftables.Table{Family: nftables.TableFamilyIPv4, Name: n.bridge.name + policiesSuffix}},
		frames: &table{conn, &nftables.Table{Family: nftables.TableFamilyBridge, Name: n.bridge.name + policiesSuffix}},
		bridge: n.bridge, api: api, now: s.wanted, was: s.applied,
	}
	w.openSets()
	if s.applied == nil || s.api != api {
		if s.before, err = w.untracked(owner); err != nil {
			return err
		}
		w.was, s.sets = &Policies{}, nil
		if err := w.begin(s.before); err != nil {
			return err
		}
	}
	sets, err := w.write(s.sets)
	if err != nil {
		return err
	}
	for at, had := range s.before {
		if owner[at] != had {
			delete(s.before, at)
			if err := w.change(w.before, nil, []nftables.SetElement{{Key: at.AsSlice()}}); err != nil {
				return err
			}
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nft table %s: %w", w.table.table.Name, err)
	}
	s.applied, s.sets, s.api = s.wanted, sets, api
	return nil
}
