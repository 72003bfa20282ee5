package requests

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// Port is one of the host's.
type Port struct {
	Protocol corev1.Protocol
	Number   int32
	IP       string // empty: all
}

// PortsOf returns the ports of the host that a pod asks for as long as it runs.
func PortsOf(spec *corev1.PodSpec) (ports []Port) {
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			ip := p.HostIP
			if ip == "0.0.0.0" || ip == "::" {
				ip = ""
			}
			ports = append(ports, Port{p.Protocol, p.HostPort, ip})
		}
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; podspec.IsSidecar(c) {
			add(c)
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	return ports
}

// Ports counts the pods that have each port; those of some address also as those of anyAddress. Nil is none.
type Ports map[Port]int

// anyAddress stands for whatever address a port has.
const anyAddress = "*"

// Add adds the ports of a pod so many times.
func (p *Ports) Add(ports []Port, times int) {
	for _, at := range ports {
		if *p == nil {
			*p = Ports{}
		}
		for _, at := range []Port{at, {at.Protocol, at.Number, anyAddress}} {
			if (*p)[at] += times; (*p)[at] == 0 {
				delete(*p, at)
			}
		}
	}
}

// Merge adds those of others.
func (p *Ports) Merge(other Ports) {
	for at, times := range other {
		if *p == nil {
			*p = Ports{}
		}
		(*p)[at] += times
	}
}

// Busy reports whether one of the ports is taken.
func (p Ports) Busy(ports []Port) bool {
	return slices.ContainsFunc(ports, func(at Port) bool {
		if len(p) == 0 {
			return false
		}
		if at.IP != "" {
			return p[at] > 0 || p[Port{at.Protocol, at.Number, ""}] > 0
		}
		return p[Port{at.Protocol, at.Number, anyAddress}] > 0
	})
}

// Meet reports whether one of the ports of others is taken.
func (p Ports) Meet(other Ports) bool {
	for at := range other {
		if at.IP != anyAddress && p.Busy([]Port{at}) {
			return true
		}
	}
	return false
}
