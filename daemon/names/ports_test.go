package names

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestPortsAndReverse(t *testing.T) {
	ports := func(s *corev1.ServiceSpec) {
		s.Ports = []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP},
			{Name: "dns", Port: 53, TargetPort: intstr.FromString("named"), Protocol: corev1.ProtocolUDP},
			{Port: 81, TargetPort: intstr.FromInt32(8081), Protocol: corev1.ProtocolTCP},
		}
	}
	x := newIndex()
	x.setService(newServiceNamed("web", ports))
	x.setService(newServiceNamed("idle", ports))
	x.setService(newServiceNamed("told", func(s *corev1.ServiceSpec) { s.Selector = nil }))
	x.setSlice(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "told-1", Labels: map[string]string{discoveryv1.LabelServiceName: "told"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, Hostname: ptr.To("one")}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8000)}},
	})
	x.setSlice(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "gone-1", Labels: map[string]string{discoveryv1.LabelServiceName: "gone"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.2"}, Hostname: ptr.To("one")}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8000)}},
	})
	x.setPod(newPodAt("web-1", "web", "10.64.0.2", host("web-1", "web")))
	x.setPod(newPodAt("web-2", "web", "10.64.0.3", func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "named", ContainerPort: 5353, Protocol: corev1.ProtocolUDP}}}}
	}))
	x.setPod(newPodAt("web-3", "web", "10.64.0.4", unready))
	x.setPod(newPodAt("stray", "other", "10.64.0.6"))
	for _, c := range []struct {
		rule, port, protocol, service string
		want                          []string
		found                         bool
	}{
		{"the ready pods, by hostname or by address", "http", "tcp", "web.ns.svc",
			[]string{"10-64-0-3.web.ns.svc:8080 10.64.0.3", "web-1.web.ns.svc:8080 10.64.0.2"}, true},
		{"those that have the named port", "dns", "udp", "web.ns.svc", []string{"10-64-0-3.web.ns.svc:5353 10.64.0.3"}, true},
		{"another protocol is another port", "http", "udp", "web.ns.svc", nil, false},
		{"a port without a name has none", "", "tcp", "web.ns.svc", nil, false},
		{"without any all ports", "", "", "web.ns.svc",
			[]string{
				"10-64-0-3.web.ns.svc:5353 10.64.0.3", "10-64-0-3.web.ns.svc:8080 10.64.0.3",
				"10-64-0-3.web.ns.svc:8081 10.64.0.3", "web-1.web.ns.svc:8080 10.64.0.2", "web-1.web.ns.svc:8081 10.64.0.2",
			}, true},
		{"a protocol alone is no port", "", "udp", "web.ns.svc", nil, false},
		{"no pods is no error", "http", "tcp", "idle.ns.svc", nil, true},
		{"no Service is", "http", "tcp", "none.ns.svc", nil, false},
		{"even if EndpointSlices are left of it", "http", "tcp", "gone.ns.svc", nil, false},
		{"what EndpointSlices say", "http", "tcp", "told.ns.svc", []string{"one.told.ns.svc:8000 192.0.2.1"}, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			all, found := x.Ports(c.port, c.protocol, c.service, 100)
			var got []string
			for _, p := range all {
				got = append(got, fmt.Sprintf("%s:%d %s", p.Target, p.Number, p.Addr))
				if addrs, _, ok := x.Lookup(p.Target); !ok || !slices.Contains(addrs, p.Addr) {
					t.Errorf("%s is %v", p.Target, addrs)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) || found != c.found {
				t.Errorf("got %q, %v", got, found)
			}
		})
	}
	if addrs, _, ok := x.Lookup("one.gone.ns.svc"); ok {
		t.Errorf("a Service that is not there leads to %v", addrs)
	}
	for addr, want := range map[string][]string{
		"10.64.0.2": {"web-1.web.ns.svc"}, "10.64.0.3": {"10-64-0-3.web.ns.svc"}, "10.64.0.4": nil, "10.64.0.6": nil, "192.0.2.1": {"one.told.ns.svc"},
	} {
		if got := x.Reverse(netip.MustParseAddr(addr)); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", addr, got, want)
		}
	}
}

func TestPortsAreNoMoreThanAreAskedFor(t *testing.T) {
	x := newIndex()
	x.setService(newServiceNamed("web", func(s *corev1.ServiceSpec) {
		for i := range 500 {
			s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1), Protocol: corev1.ProtocolTCP})
		}
	}))
	for i := range 3 {
		x.setPod(newPodAt(fmt.Sprint("web-", i), "web", fmt.Sprint("10.64.0.", i+2)))
	}
	for port, want := range map[string]int{"": 33, "p499": 3, "none": 0} {
		protocol := ""
		if port != "" {
			protocol = "tcp"
		}
		all, found := x.Ports(port, protocol, "web.ns.svc", 33)
		if len(all) != want || found != (want > 0) {
			t.Errorf("%q: %d, %v", port, len(all), found)
		}
	}
}
