package names

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/runtime/network"
)

// taken is how much room ports take.
func taken(ports []network.ServicePort) (n int) {
	for _, p := range ports {
		each := 1
		if p.Affinity > 0 {
			each = faithfulEndpoint
		}
		n += 1 + each*len(p.Endpoints)
	}
	return n
}

// TestFit: whatever Services lead to, what is left of it fits. Of what fits, nothing is left out; an older Service is never cut
// for a younger one; and what is cut is said.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 100).Draw(t, "room")
		var all []leading
		var before []int
		for i := range rapid.IntRange(1, 8).Draw(t, "Services") {
			l := leading{serviceRef: serviceRef{namespace: "ns", name: fmt.Sprint(i)}, created: time.Unix(int64(i), 0)}
			affinity := time.Duration(rapid.IntRange(0, 1).Draw(t, "affinity"))
			endpoints := rapid.IntRange(0, 20).Draw(t, "endpoints")
			for range rapid.IntRange(1, 10).Draw(t, "ports") {
				l.ports = append(l.ports, network.ServicePort{Affinity: affinity, Endpoints: make([]netip.AddrPort, endpoints)})
			}
			all = append(all, l)
			before = append(before, taken(l.ports))
		}
		left := fit(all, room)
		total, sum := 0, 0
		for i, l := range all {
			n := taken(l.ports)
			total += n
			sum += before[i]
			said := slices.ContainsFunc(left, func(o leftOut) bool { return o.name == l.name })
			if said != (n < before[i]) {
				t.Errorf("Service %d takes %d of %d, said: %v", i, n, before[i], said)
			}
			if sum <= room && said {
				t.Errorf("Service %d was cut for younger ones", i)
			}
		}
		if total > room {
			t.Errorf("they take %d of %d", total, room)
		}
	})
}

// TestRoomOfNamespaces: pods and EndpointSlices multiply with the ports of Services, and do not take more than there is.
func TestRoomOfNamespaces(t *testing.T) {
	x := newIndex()
	ports := func(n int) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) {
			s.ClusterIP = "10.96.0.5"
			for i := range n {
				s.Ports = append(
					s.Ports,
					corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(1 + i), TargetPort: intstr.FromInt32(80), Protocol: corev1.ProtocolTCP},
				)
			}
		}
	}
	web := newServiceNamed("web", ports(500))
	x.setService(web)
	small := newServiceNamed("small", ports(1))
	small.Namespace = "other"
	x.setService(small)
	old := newServiceNamed("old", ports(50000)) // from a time without bounds
	old.Namespace = "third"
	x.setService(old)
	told := newServiceNamed("told", ports(500), func(s *corev1.ServiceSpec) { s.Selector = nil })
	told.Namespace = "fourth"
	x.setService(told)
	for i := range 100 {
		p := newPodAt(fmt.Sprint("web-", i), "web", fmt.Sprintf("10.64.0.%d", i+2))
		x.setPod(p)
		p = newPodAt(fmt.Sprint("small-", i), "small", fmt.Sprintf("10.64.1.%d", i+2))
		p.Namespace = "other"
		x.setPod(p)
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "fourth", Name: fmt.Sprint(i), Labels: map[string]string{discoveryv1.LabelServiceName: "told"}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for k := range 200 {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("192.0.%d.%d", i, k+2)}})
		}
		for k := range int32(500) {
			name, number := fmt.Sprint("p", k), k+1
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number})
		}
		x.setSlice(slice)
	}
	x.allServicesShown()
	x.allSlicesShown()
	x.allPodsShown()
	got, left, _ := x.servicePorts()
	by := map[string][]network.ServicePort{}
	for _, p := range got {
		by[p.Namespace] = append(by[p.Namespace], p)
	}
	for namespace, want := range map[string]int{"ns": 10000, "other": 101, "third": 0, "fourth": 10000} {
		if n := taken(by[namespace]); n != want {
			t.Errorf("%s takes %d, want %d", namespace, n, want)
		}
	}
	var said []string
	for _, l := range left {
		said = append(said, l.namespace+"/"+l.name)
	}
	if slices.Sort(said); !slices.Equal(said, []string{"fourth/told", "ns/web", "third/old"}) {
		t.Errorf("said %q", said)
	}
}

// TestChangesComeAtLeisure: whoever changes where Services lead again and again takes a tenth of the time, and what is left out
// is said once.
func TestChangesComeAtLeisure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newIndex()
		x.setService(newServiceNamed("web", func(s *corev1.ServiceSpec) {
			s.ClusterIP = "10.96.0.5"
			for i := range 20000 {
				s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(1 + i), Protocol: corev1.ProtocolTCP})
			}
		}))
		x.allServicesShown()
		x.allSlicesShown()
		x.allPodsShown()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		var sets, tells atomic.Int64
		set := func([]network.ServicePort) error {
			sets.Add(1)
			time.Sleep(time.Second)
			return nil
		}
		tell := func(context.Context, leftOut) { tells.Add(1) }
		go func() {
			defer close(ended)
			x.lead(ctx, set, tell, slog.New(slog.DiscardHandler))
		}()
		for i := range 300 {
			edit := []func(*corev1.Pod){}
			if i%2 == 0 {
				edit = append(edit, unready)
			}
			x.setPod(newPodAt("web-1", "web", "10.64.0.2", edit...))
			time.Sleep(300 * time.Millisecond)
		}
		if sets.Load() > 10 || tells.Load() != 1 {
			t.Errorf("%d times in 90 s, said %d times", sets.Load(), tells.Load())
		}
		cancel()
		<-ended
	})
}

// TestAddressesAreThoseOnRecord: what the status of a pod says leads neither names nor virtual addresses elsewhere.
func TestAddressesAreThoseOnRecord(t *testing.T) {
	x := newIndex()
	x.addressOf = func(p *corev1.Pod) netip.Addr {
		at, _ := netip.ParseAddr(map[string]string{"web-1": "10.64.0.2"}[p.Name])
		return at
	}
	x.setService(newServiceNamed("web"))
	for _, p := range []*corev1.Pod{newPodAt("web-1", "web", "192.0.2.66"), newPodAt("web-2", "web", "127.0.0.1")} {
		x.setPod(p)
	}
	x.setService(newServiceNamed("told", func(s *corev1.ServiceSpec) { s.Selector = nil }))
	x.setSlice(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "told", Labels: map[string]string{discoveryv1.LabelServiceName: "told"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1", "fd00::1234", "192.0.2.1"}}},
	})
	for name, want := range map[string]string{"web.ns.svc": "[10.64.0.2]", "told.ns.svc": "[192.0.2.1]"} {
		if got, _, _ := x.Lookup(name); fmt.Sprint(got) != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
}

// A pod that shows one of a cluster is in the network of that: no Service here leads there.
func TestPodsOfAClusterAreInNoService(t *testing.T) {
	x := newIndex()
	x.setService(newServiceNamed("web"))
	x.setPod(newPodAt("web-1", "web", "10.64.0.2"))
	x.setPod(newPodAt("web-2", "web", "10.244.0.2", func(p *corev1.Pod) {
		p.Spec.NodeName, p.Spec.SchedulerName = "prod", clusters.Scheduler("prod")
	}))
	if got, _, _ := x.Lookup("web.ns.svc"); fmt.Sprint(got) != "[10.64.0.2]" {
		t.Errorf("got %v", got)
	}
}
