package network

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// protocols are the numbers of those that have ports.
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

func portsOf(pod *corev1.Pod) []hostPort {
	var out []hostPort
	for c := range podspec.Containers(&pod.Spec) {
		for _, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			h := hostPort{Protocol: p.Protocol, HostPort: uint16(p.HostPort), Port: uint16(p.ContainerPort)}
			if ip, err := netip.ParseAddr(p.HostIP); err == nil && !ip.IsUnspecified() && ip.Is4() {
				h.HostIP = ip
			}
			if !slices.Contains(out, h) {
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

// hostPorts are the ports of the host that pods have.
type hostPorts struct{ mapped []mappedPort }

func (h *hostPorts) list() []mappedPort { return h.mapped }

// free fails where another pod has one of the ports.
func (h *hostPorts) free(ports []hostPort) error {
	for _, p := range ports {
		for _, m := range h.mapped {
			if p.meets(m.hostPort) {
				return fmt.Errorf("port %d/%s of the host is that of the pod at %s: %w",
					p.HostPort, p.Protocol, m.pod, errdefs.ErrAlreadyExists)
			}
		}
	}
	return nil
}

func (h *hostPorts) add(r record) {
	h.remove(r)
	for _, p := range r.Ports {
		h.mapped = append(h.mapped, mappedPort{p, r.Address})
	}
}

func (h *hostPorts) remove(r record) {
	h.mapped = slices.DeleteFunc(h.mapped, func(m mappedPort) bool { return m.pod == r.Address })
}

// routeLoopback makes ports of pods work at the host's own 127.0.0.1 too.
func (b *bridge) routeLoopback() error {
	if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4/conf", b.name, "route_localnet"), []byte("1"), 0); err != nil {
		return fmt.Errorf("ports of the loopback address: %w", err)
	}
	return nil
}
