package network

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/containerd/errdefs"
)

// subnetBits is the size of a subnet: 4094 addresses, more than a bridge takes pods, so that an address is not reused at once.
const subnetBits = 20

// chooseSubnet returns a private subnet for the daemon of a root that overlaps none of those that are taken. It is the
// same one each time, as long as that is possible.
func chooseSubnet(root string, taken []netip.Prefix) (netip.Prefix, error) {
	sum := sha256.Sum256([]byte(root))
	seed := binary.BigEndian.Uint32(sum[4:])
	for _, pool := range []netip.Prefix{
		netip.MustParsePrefix("10.64.0.0/10"), // the rest of 10/8 is what people choose first
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("10.0.0.0/8"),
	} {
		size := uint32(1) << (subnetBits - pool.Bits())
		for i := range size {
			subnet := netip.PrefixFrom(add(pool.Addr(), (seed+i)%size<<(32-subnetBits)), subnetBits)
			if !overlapsAny(subnet, taken) {
				return subnet, nil
			}
		}
	}
	return netip.Prefix{}, errors.New("every private subnet is in use on this host")
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	for _, o := range others {
		if p.Overlaps(o) {
			return true
		}
	}
	return false
}

// add returns the IPv4 address that comes n after another.
func add(a netip.Addr, n uint32) netip.Addr {
	b := a.As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+n)
	return netip.AddrFrom4(b)
}

// addresses allocates the addresses of a subnet, each to one pod. The first one is the bridge's.
type addresses struct {
	subnet netip.Prefix
	owner  map[netip.Addr]string
	owned  map[string]netip.Addr
	// last is the address after which the search continues: a released address is reused as late as possible, since its
	// link lives on for a moment and others may still send to it.
	last netip.Addr
}

func newAddresses(subnet netip.Prefix) *addresses {
	return &addresses{
		subnet: subnet, owner: map[netip.Addr]string{}, owned: map[string]netip.Addr{}, last: gateway(subnet),
	}
}

// gateway returns the bridge's own address.
func gateway(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next() }

// of returns the address that a pod has; not valid if it has none.
func (a *addresses) of(uid string) netip.Addr { return a.owned[uid] }

// claim records an address that a pod was found with, and reports whether the pod can keep it.
func (a *addresses) claim(uid string, addr netip.Addr) bool {
	if !a.subnet.Contains(addr) || a.owner[addr] != "" {
		return false
	}
	a.owner[addr], a.owned[uid] = uid, addr
	if a.last.Less(addr) {
		a.last = addr
	}
	return true
}

// take allocates an address for a pod.
func (a *addresses) take(uid string) (netip.Addr, error) {
	a.release(uid)
	addr := a.last
	for range 1<<(32-subnetBits) - 1 {
		addr = addr.Next()
		if !a.subnet.Contains(addr.Next()) { // the last one is the broadcast address
			addr = gateway(a.subnet).Next()
		}
		if a.owner[addr] == "" {
			a.owner[addr], a.owned[uid], a.last = uid, addr, addr
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %s are in use: %w", a.subnet, errdefs.ErrResourceExhausted)
}

// give passes the address of one owner on to another, and returns it.
func (a *addresses) give(from, to string) netip.Addr {
	a.release(to)
	addr := a.owned[from]
	delete(a.owned, from)
	a.owner[addr], a.owned[to] = to, addr
	return addr
}

// release frees the address of a pod, and reports whether it was the last one in use.
func (a *addresses) release(uid string) (last bool) {
	owned, had := a.owned[uid]
	delete(a.owner, owned)
	delete(a.owned, uid)
	return had && len(a.owned) == 0
}

// none reports whether no pod has an address.
func (a *addresses) none() bool { return len(a.owned) == 0 }
