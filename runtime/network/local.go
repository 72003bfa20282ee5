package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// local holds the expressions that match packets to the host.
type local struct {
	// toHost are the expressions of rules that between them match every address of the host.
	toHost [][]expr.Any
	// toInterface matches only addresses of the interface through which a packet has come in.
	toInterface []expr.Any
}

// localByRoutes returns expressions that look the addresses up in the kernel's routes, which needs the nft expression
// fib.
func (t *table) localByRoutes() (local, error) {
	isLocal := func(ofInterface bool) []expr.Any {
		return []expr.Any{
			&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true, FlagIIF: ofInterface},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
		}
	}
	return local{toHost: [][]expr.Any{isLocal(false)}, toInterface: isLocal(true)}, nil
}

// localByList returns expressions that look the addresses up in sets, which it adds to the table.
func (t *table) localByList(addresses []hostAddress) (local, error) {
	all := &nftables.Set{Table: t.table, ID: 4, Name: "local", KeyType: nftables.TypeIPAddr}
	byInterface := &nftables.Set{
		Table: t.table, ID: 5, Name: "local-by-interface",
		KeyType: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIPAddr),
	}
	var ofAll, ofInterfaces []nftables.SetElement
	for _, a := range addresses {
		key := make([]byte, unix.IFNAMSIZ)
		copy(key, a.link)
		ofAll = append(ofAll, nftables.SetElement{Key: a.AsSlice()})
		ofInterfaces = append(ofInterfaces, nftables.SetElement{Key: append(key, a.AsSlice()...)})
	}
	if err := errors.Join(t.fill(all, ofAll), t.fill(byInterface, ofInterfaces)); err != nil {
		return local{}, err
	}
	destination := func(register uint32) expr.Any {
		return &expr.Payload{
			DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: 4,
		}
	}
	return local{
		toHost: [][]expr.Any{
			within(destinationOffset, loopbackAddresses), // the whole network is the host's, whatever its addresses
			{destination(smallRegister), &expr.Lookup{SourceRegister: smallRegister, SetName: all.Name, SetID: all.ID}},
		},
		toInterface: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: smallRegister},
			destination(smallRegister + 4),
			&expr.Lookup{SourceRegister: smallRegister, SetName: byInterface.Name, SetID: byInterface.ID},
		},
	}, nil
}

var loopbackAddresses = netip.MustParsePrefix("127.0.0.0/8")

// hostAddress is an IPv4 address of the host, with the name of the interface that has it.
type hostAddress struct {
	netip.Addr
	link string
}

func (a hostAddress) compare(b hostAddress) int {
	if c := a.Addr.Compare(b.Addr); c != 0 {
		return c
	}
	return slices.Compare([]byte(a.link), []byte(b.link))
}

// hostAddresses returns the addresses of all interfaces, in order; never nil.
func hostAddresses() ([]hostAddress, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("interfaces of the host: %w", err)
	}
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	list, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("addresses of the host: %w", err)
	}
	out := []hostAddress{}
	for _, a := range list {
		if ip, ok := netip.AddrFromSlice(a.IP.To4()); ok {
			out = append(out, hostAddress{ip, names[a.LinkIndex]})
		}
	}
	slices.SortFunc(out, hostAddress.compare)
	return out, nil
}

// isLocal reports whether an address is among those of the host.
func isLocal(addresses []hostAddress, ip net.IP) bool {
	a, ok := netip.AddrFromSlice(ip.To4())
	return ok && (loopbackAddresses.Contains(a) ||
		slices.ContainsFunc(addresses, func(h hostAddress) bool { return h.Addr == a }))
}

// FollowAddresses keeps the rules for ports of the host up to date with the host's addresses until the context ends, if
// the kernel cannot look them up itself; otherwise it returns at once.
func (n *Network) FollowAddresses(ctx context.Context) error {
	n.mu.Lock()
	needed := n.bridge != nil && n.bridge.listed != nil
	n.mu.Unlock()
	if !needed {
		return nil
	}
	for ctx.Err() == nil {
		if err := n.followAddresses(ctx); err != nil {
			return err
		}
	}
	return nil
}

// followAddresses does what FollowAddresses does until the context ends or changes come faster than they can be read.
func (n *Network) followAddresses(ctx context.Context) error {
	changes, done := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	defer close(done)
	if err := netlink.AddrSubscribe(changes, done); err != nil {
		return fmt.Errorf("changes of the host's addresses: %w", err)
	}
	for {
		// An address may have changed before the subscription began.
		if err := n.renewAddresses(); err != nil {
			n.logger.Warn("cannot update the addresses of the host in the rules for its ports",
				"bridge", n.bridge.name, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changes:
			if !ok {
				return nil
			}
		}
	}
}

// renewAddresses rewrites the rules if the host's addresses have changed.
func (n *Network) renewAddresses() error {
	now, err := hostAddresses()
	if err != nil {
		return err
	}
	n.mu.Lock()
	known := slices.Equal(now, n.bridge.listed)
	n.mu.Unlock()
	if known {
		return nil
	}
	if err := n.writeRules(); err != nil || !n.services.forget() {
		return err
	}
	return n.writeServices()
}
