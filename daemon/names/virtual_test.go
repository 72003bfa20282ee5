package names

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// TestServicePorts says where virtual addresses lead, from the Service and the pods of a namespace.
func TestServicePorts(t *testing.T) {
	web := func(edit ...func(*corev1.ServiceSpec)) *corev1.Service {
		s := newServiceNamed("web", func(s *corev1.ServiceSpec) {
			s.ClusterIP = "10.96.0.5"
			s.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}}
		})
		for _, e := range edit {
			e(&s.Spec)
		}
		return s
	}
	named := func(port string) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = intstr.FromString(port) }
	}
	container := func(name string, number int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number}}}}
		}
	}
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	told := func(name string, number int32, ips ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "told", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for _, ip := range ips {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
		}
		s.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &number}}
		return s
	}
	const at = "ns/web:http/TCP TCP 10.96.0.5:80"
	for _, c := range []struct {
		name    string
		service *corev1.Service
		pods    []*corev1.Pod
		slice   *discoveryv1.EndpointSlice
		want    string
	}{
		{"the ready pods", web(), []*corev1.Pod{
			newPodAt("a", "web", "10.64.0.2"), newPodAt("b", "web", "10.64.0.3"), newPodAt("c", "web", "10.64.0.4", unready),
			newPodAt("d", "other", "10.64.0.5"),
		}, nil,
			at + " -> 10.64.0.2:8080 10.64.0.3:8080"},
		{"nobody", web(), nil, nil, at + " ->"},
		{"all with publishNotReadyAddresses", web(
			func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true },
		), []*corev1.Pod{newPodAt("a", "web", "10.64.0.2", unready)}, nil,
			at + " -> 10.64.0.2:8080"},
		{"not those that end", web(), []*corev1.Pod{newPodAt("a", "web", "10.64.0.2", ending), newPodAt("b", "web", "10.64.0.3")}, nil,
			at + " -> 10.64.0.3:8080"},
		{"unless there is no other", web(), []*corev1.Pod{newPodAt("a", "web", "10.64.0.2", ending), newPodAt("b", "web", "10.64.0.3", ending, unready)}, nil,
			at + " -> 10.64.0.2:8080"},
		{"a named port, of each pod its own", web(named("web")), []*corev1.Pod{
			newPodAt("a", "web", "10.64.0.2", container("web", 1)), newPodAt("b", "web", "10.64.0.3", container("web", 2)),
			newPodAt("c", "web", "10.64.0.4", container("x", 3)),
		}, nil,
			at + " -> 10.64.0.2:1 10.64.0.3:2"},
		{"a pod in the host's network", web(), []*corev1.Pod{newPodAt("a", "web", "192.0.2.1")}, nil, at + " -> 192.0.2.1:8080"},
		{
			"two of them at one address", web(),
			[]*corev1.Pod{newPodAt("a", "web", "192.0.2.1"), newPodAt("b", "web", "192.0.2.1")}, nil, at + " -> 192.0.2.1:8080",
		},
		{"headless: nothing to lead", web(func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }), nil, nil, ""},
		{"without a selector what EndpointSlices say", web(func(s *corev1.ServiceSpec) { s.Selector = nil }), nil, told("http", 99, "192.0.2.1", "192.0.2.2"),
			at + " -> 192.0.2.1:99 192.0.2.2:99"},
		{
			"but not to the host's own loopback", web(func(s *corev1.ServiceSpec) { s.Selector = nil }), nil,
			told("http", 99, "127.0.0.1", "169.254.169.254", "0.0.0.0"), at + " ->",
		},
		{"nor by another port's name", web(func(s *corev1.ServiceSpec) { s.Selector = nil }), nil, told("grpc", 99, "192.0.2.1"), at + " ->"},
		{"ports of the host, external addresses, affinity", web(func(s *corev1.ServiceSpec) {
			s.Type, s.Ports[0].NodePort, s.ExternalIPs = corev1.ServiceTypeNodePort, 30080, []string{"192.0.2.7"}
			s.SessionAffinity, s.SessionAffinityConfig = corev1.ServiceAffinityClientIP, &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)},
			}
		}), nil, nil, at + " [192.0.2.7] :30080 1m0s ->"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newIndex()
			x.setService(c.service)
			for _, p := range c.pods {
				x.setPod(p)
			}
			if c.slice != nil {
				x.setSlice(c.slice)
			}
			x.allServicesShown()
			x.allSlicesShown()
			if _, _, known := x.servicePorts(); known != (c.service.Spec.Selector == nil) {
				t.Errorf("known before all pods were read: %v", known)
			}
			x.allPodsShown()
			ports, _, known := x.servicePorts()
			if !known {
				t.Error("not known")
			}
			var got []string
			for _, p := range ports {
				line := fmt.Sprintf("%s %s %s", p.Name, p.Protocol, p.At)
				if p.NodePort != 0 {
					line += fmt.Sprintf(" %v :%d %v", p.External, p.NodePort, p.Affinity)
				}
				line += " ->"
				for _, e := range p.Endpoints {
					line += " " + e.String()
				}
				got = append(got, line)
			}
			if all := strings.Join(got, "\n"); all != c.want {
				t.Errorf("got %q, want %q", all, c.want)
			}
		})
	}
}

// TestNamesOfVirtualAddresses: a Service with an address has that in the answers for its name, its ports and in reverse.
func TestNamesOfVirtualAddresses(t *testing.T) {
	x := newIndex()
	x.setService(newServiceNamed("web", func(s *corev1.ServiceSpec) {
		s.ClusterIP = "10.96.0.5"
		s.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}}
	}))
	x.setPod(newPodAt("web-1", "web", "10.64.0.2", host("web-1", "web")))
	for name, want := range map[string]string{"web.ns.svc": "[10.96.0.5]", "web-1.web.ns.svc": "[10.64.0.2]"} {
		if addrs, _, found := x.Lookup(name); !found || fmt.Sprint(addrs) != want {
			t.Errorf("%s: %v, want %s", name, addrs, want)
		}
	}
	ports, found := x.Ports("http", "tcp", "web.ns.svc", 100)
	if !found || fmt.Sprint(ports) != "[{web.ns.svc 10.96.0.5 80}]" {
		t.Errorf("SRV: %v", ports)
	}
	if _, found := x.Ports("grpc", "tcp", "web.ns.svc", 100); found {
		t.Error("it has a port that the Service does not")
	}
	if names := x.Reverse(netip.MustParseAddr("10.96.0.5")); fmt.Sprint(names) != "[web.ns.svc]" {
		t.Errorf("PTR: %v", names)
	}
}

// BenchmarkServicePorts is what one change costs with 50 Services and 500 pods, before the kernel hears of it.
func BenchmarkServicePorts(b *testing.B) {
	x := newIndex()
	for i := range 50 {
		name := fmt.Sprintf("web-%d", i)
		x.setService(newServiceNamed(name, func(s *corev1.ServiceSpec) {
			s.ClusterIP = fmt.Sprintf("10.96.0.%d", i+1)
			s.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}}
		}))
		for j := range 10 {
			x.setPod(newPodAt(fmt.Sprintf("%s-%d", name, j), name, fmt.Sprintf("10.64.%d.%d", i, j+1)))
		}
	}
	x.allServicesShown()
	x.allSlicesShown()
	x.allPodsShown()
	for b.Loop() {
		x.servicePorts()
	}
}
