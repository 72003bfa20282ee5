package names

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func somePod(namespace, name, addr string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	p.Status.PodIP, p.Status.Phase = addr, corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

func someService(namespace, name, addr string, selector map[string]string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.ClusterIP, s.Spec.Selector = addr, selector
	return s
}

// A query for an address gets the names by which that address is found, whatever has changed before.
func TestReverseAgreesWithLookup(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	addresses := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}
	x := newIndex()
	for range 3000 {
		namespace, addr := pick("a", "b"), pick(addresses...)
		switch random.IntN(8) {
		case 0, 1:
			p := somePod(namespace, pick("p", "q", "r"), addr, map[string]string{"app": pick("x", "y")})
			if random.IntN(2) == 0 {
				p.Spec.Hostname, p.Spec.Subdomain = p.Name, pick("s", "t")
			}
			x.setPod(p)
		case 2:
			x.deletePod(namespace, pick("p", "q", "r"))
		case 3, 4:
			s := someService(namespace, pick("s", "t", "u"), pick("", "None", addr), map[string]string{"app": pick("x", "y")})
			if random.IntN(3) == 0 {
				s.Spec.Selector = nil
			}
			x.setService(s)
		case 5:
			x.dropService(namespace, pick("s", "t", "u"))
		case 6, 7:
			s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
			s.Namespace, s.Name = namespace, pick("e", "f")
			s.Labels = map[string]string{discoveryv1.LabelServiceName: pick("s", "t", "u")}
			s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{addr}}, {Addresses: []string{pick(addresses...)}}}
			if x.setSlice(s); random.IntN(3) == 0 {
				x.dropSlice(s)
			}
		}
		for _, addr := range addresses {
			want := asked(x, netip.MustParseAddr(addr))
			if got := x.Reverse(netip.MustParseAddr(addr)); !slices.Equal(got, want) {
				t.Fatalf("%s is %q, want %q", addr, got, want)
			}
			for _, name := range want {
				if addrs, _, found := x.Lookup(name); !found || !slices.Contains(addrs, netip.MustParseAddr(addr)) {
					t.Fatalf("%s is %v, and has the name of %s", name, addrs, addr)
				}
			}
		}
	}
	x.dropPods()
	x.dropServices()
	x.dropSlices()
	if len(x.places.Map) > 0 {
		t.Errorf("left are %v", x.places)
	}
}

// asked looks at everything.
func asked(x *index, addr netip.Addr) (all []string) {
	for namespace, services := range x.services {
		for name, s := range services {
			if s.addr == addr {
				all = append(all, name+"."+namespace+".svc")
				continue
			}
			for e := range x.leads(namespace, name) {
				if e.addr == addr {
					all = append(all, e.name()+"."+name+"."+namespace+".svc")
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A query of 60 bytes must not cost a look at all pods for each Service.
func TestReverseOfManyServices(t *testing.T) {
	x := newIndex()
	for i := range 2000 {
		x.setService(someService("a", fmt.Sprint("s", i), "None", map[string]string{"app": fmt.Sprint(i)}))
	}
	x.mu.Lock()
	for i := range 2000 { // setPod would look for its Services, and 4 million take a while
		p := somePod("a", fmt.Sprint("p", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250), map[string]string{"app": "none"})
		entry := newPod(p, netip.MustParseAddr(p.Status.PodIP))
		put(&x.pods, "a", p.Name, entry)
		x.places.add(place{atPod, "a", p.Name}, entry.addr)
	}
	x.mu.Unlock()
	begin := time.Now()
	for range 100 {
		if names := x.Reverse(netip.MustParseAddr("10.0.1.1")); len(names) > 0 {
			t.Fatal(names)
		}
		if _, _, found := x.Lookup("10-0-1-1.s7.a.svc"); found {
			t.Fatal("the Service does not select it")
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("100 queries take %v", took)
	}
}
