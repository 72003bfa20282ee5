package config

import (
	"fmt"
	"net/netip"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Bounds of the range of virtual addresses: at least two addresses that can be used, and no more than a search goes
// through.
const (
	minServiceBits = 12
	maxServiceBits = 30
)

// ServiceAddresses parses ServiceClusterIPRange; not valid if it is empty.
func (c *Config) ServiceAddresses() (netip.Prefix, error) {
	if c.ServiceClusterIPRange == "" {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(c.ServiceClusterIPRange)
	switch {
	case err != nil:
		return p, fmt.Errorf("service-cluster-ip-range: %w", err)
	case !p.Addr().Is4():
		return p, fmt.Errorf("service-cluster-ip-range: %s is not an IPv4 network: pods have IPv4 only", p)
	case p.Bits() < minServiceBits || p.Bits() > maxServiceBits:
		return p, fmt.Errorf("service-cluster-ip-range: %s: the prefix must have %d to %d bits", p, minServiceBits, maxServiceBits)
	case p != p.Masked():
		return p, fmt.Errorf("service-cluster-ip-range: %s is not a network: %s is", p, p.Masked())
	case !p.Addr().IsGlobalUnicast():
		return p, fmt.Errorf("service-cluster-ip-range: %s cannot be the addresses of Services", p)
	}
	return p, nil
}

// NodePorts parses ServiceNodePortRange.
func (c *Config) NodePorts() (utilnet.PortRange, error) {
	r, err := utilnet.ParsePortRange(c.ServiceNodePortRange)
	if err != nil {
		return utilnet.PortRange{}, fmt.Errorf("service-node-port-range: %w", err)
	}
	if r.Base < 1 || r.Size < 1 {
		return *r, fmt.Errorf("service-node-port-range: %q has no port above 0", c.ServiceNodePortRange)
	}
	return *r, nil
}
