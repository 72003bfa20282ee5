package network

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// protocols are the numbers of the protocols that have ports.
var protocols = map[corev1.Protocol]byte{
	corev1.ProtocolTCP:  unix.IPPROTO_TCP,
	corev1.ProtocolUDP:  unix.IPPROTO_UDP,
	corev1.ProtocolSCTP: unix.IPPROTO_SCTP,
}

// hostPort is a port of the host that a pod asks for (Container.ports[].hostPort).
type hostPort struct {
	Protocol corev1.Protocol `json:"protocol"`
	HostIP   netip.Addr      `json:"hostIP,omitzero"` // not valid: every address of the host
	HostPort uint16          `json:"hostPort"`
	Port     uint16          `json:"port"`
}

// mappedPort is a port of the host that leads to a pod.
type mappedPort struct {
	hostPort
	pod netip.Addr
}

// portsOf returns the ports of the host that a pod asks for, without duplicates.
func portsOf(pod *corev1.Pod) []hostPort {
	var out []hostPort
	seen := map[hostPort]bool{}
	for c := range podspec.Containers(&pod.Spec) {
		for _, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			h := hostPort{Protocol: p.Protocol, HostPort: uint16(p.HostPort), Port: uint16(p.ContainerPort)}
			if ip, err := netip.ParseAddr(p.HostIP); err == nil && !ip.IsUnspecified() && ip.Is4() {
				h.HostIP = ip
			}
			if !seen[h] {
				seen[h] = true
				out = append(out, h)
			}
		}
	}
	return out
}

// meets reports whether two ports conflict.
func (p hostPort) meets(q hostPort) bool {
	return p.Protocol == q.Protocol && p.HostPort == q.HostPort &&
		(p.HostIP == q.HostIP || !p.HostIP.IsValid() || !q.HostIP.IsValid())
}

func (p hostPort) String() string {
	if p.HostIP.IsValid() {
		return fmt.Sprintf("port %d/%s of the host's address %s", p.HostPort, p.Protocol, p.HostIP)
	}
	return fmt.Sprintf("port %d/%s of the host", p.HostPort, p.Protocol)
}

// hostPorts holds the ports of the host that pods have.
type hostPorts struct {
	mapped map[portNumber][]mappedPort
}

// portNumber is what two ports that may conflict have in common.
type portNumber struct {
	protocol corev1.Protocol
	number   uint16
}

func (p hostPort) number() portNumber { return portNumber{p.Protocol, p.HostPort} }

func (h *hostPorts) list() []mappedPort {
	return slices.Concat(slices.Collect(maps.Values(h.mapped))...)
}

// free fails if a pod already has one of the ports.
func (h *hostPorts) free(ports []hostPort) error {
	for _, p := range ports {
		for _, m := range h.mapped[p.number()] {
			if p.meets(m.hostPort) {
				return fmt.Errorf("%s is that of the pod at %s: %w", p, m.pod, errdefs.ErrAlreadyExists)
			}
		}
	}
	return nil
}

func (h *hostPorts) add(r record) {
	h.remove(r)
	if h.mapped == nil {
		h.mapped = map[portNumber][]mappedPort{}
	}
	for _, p := range r.Ports {
		h.mapped[p.number()] = append(h.mapped[p.number()], mappedPort{p, r.Address})
	}
}

func (h *hostPorts) remove(r record) {
	for _, p := range r.Ports {
		left := slices.DeleteFunc(h.mapped[p.number()], func(m mappedPort) bool { return m.pod == r.Address })
		if len(left) == 0 {
			delete(h.mapped, p.number())
		} else {
			h.mapped[p.number()] = left
		}
	}
}

// Reserved is an endpoint of the host that no port of a pod may take over.
type Reserved struct {
	Protocol corev1.Protocol
	At       netip.AddrPort
	// Owner says, for people to read, whom it belongs to.
	Owner string
}

// taken fails if one of the ports is reserved. A port of all addresses may coexist with a reserved one at the gateway's
// address, which only pods know.
func taken(ports []hostPort, reserved []Reserved, gateway netip.Addr) error {
	for _, p := range ports {
		for _, r := range reserved {
			theirs := hostPort{Protocol: r.Protocol, HostIP: r.At.Addr(), HostPort: r.At.Port()}
			if p.meets(theirs) && (p.HostIP.IsValid() || r.At.Addr() != gateway) {
				return fmt.Errorf("%s is reserved: %s has it at %s: %w", p, r.Owner, r.At, errdefs.ErrAlreadyExists)
			}
		}
	}
	return nil
}

// onHost fails if one of the ports is at an address that is not the host's.
func (b *bridge) onHost(ports []hostPort) error {
	known := map[netip.Addr]bool{}
	for _, p := range ports {
		if !p.HostIP.IsValid() || known[p.HostIP] {
			continue
		}
		routes, err := netlink.RouteGet(p.HostIP.AsSlice())
		if err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EINVAL) &&
			!errors.Is(err, unix.EHOSTUNREACH) {
			return fmt.Errorf("hostIP %s: %w", p.HostIP, err)
		}
		if len(routes) == 0 || routes[0].Type != unix.RTN_LOCAL {
			return fmt.Errorf("hostIP %s is not an address of this host: %w", p.HostIP, errdefs.ErrFailedPrecondition)
		}
		known[p.HostIP] = true
	}
	return nil
}

// routeLoopback lets ports of pods work at the host's own 127.0.0.1 too, while there are any.
func (b *bridge) routeLoopback(wanted bool) error {
	setting, value := filepath.Join("/proc/sys/net/ipv4/conf", b.name, "route_localnet"), "0"
	if wanted {
		value = "1"
	}
	if err := set(setting, value); err != nil {
		return fmt.Errorf("ports of the loopback address: %w", err)
	}
	return nil
}
