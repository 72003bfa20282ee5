package network

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Each endpoint of a port has one of its numbers, so that each is as likely, and no two ports share numbers.
func TestNumbersOfEndpoints(t *testing.T) {
	var ports []ServicePort
	for i := range 300 {
		p := ServicePort{Name: fmt.Sprint(i / 2), Protocol: corev1.ProtocolTCP, At: netip.AddrPortFrom(netip.MustParseAddr("10.96.0.5"), uint16(i+1))}
		for e := range i % 5 {
			p.Endpoints = append(p.Endpoints, netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(i*10+e)))
		}
		p.Affinity = time.Duration(i%2) * time.Hour
		ports = append(ports, p)
	}
	r := compileServices(ports, nil)
	leads, refused, total := r.elements[setVirtual], r.elements[setRefused], 0
	for _, p := range ports {
		total += len(p.Endpoints)
		key := endpoint{p.At, p.Protocol}.key()
		_, none := refused[string(key)]
		if chain, ok := leads[string(key)]; ok == none || none != (len(p.Endpoints) == 0) || ok && r.chains[chain] == nil {
			t.Errorf("port %s: chain %q, refused %v", p.At, chain, none)
		}
	}
	if got := len(r.elements[setEndpoints]) + len(r.elements[setChoices]); got != total {
		t.Errorf("%d numbers for %d endpoints", got, total)
	}
	seen := map[string]bool{}
	for _, data := range r.elements[setEndpoints] {
		if seen[data] {
			t.Errorf("endpoint %x has two numbers", data)
		}
		seen[data] = true
	}
}
