package names

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

func newServiceNamed(name string, edit ...func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	s.Spec.Selector = map[string]string{"app": name}
	for _, e := range edit {
		e(&s.Spec)
	}
	return s
}

func newPodAt(name, app, ip string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": app}}}
	p.Status.Phase, p.Status.PodIP = corev1.PodRunning, ip
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, e := range edit {
		e(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func host(hostname, subdomain string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = hostname, subdomain }
}

func TestLookup(t *testing.T) {
	x := newIndex()
	x.setService(newServiceNamed("web"))
	x.setService(newServiceNamed("all", func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }))
	x.setService(newServiceNamed("free", func(s *corev1.ServiceSpec) { s.Selector = nil }))
	x.setService(newServiceNamed("away", func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.org" }))
	x.setService(newServiceNamed("told", func(s *corev1.ServiceSpec) { s.Selector = nil }))
	told := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "told-1", Labels: map[string]string{discoveryv1.LabelServiceName: "told"}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	told.Endpoints = []discoveryv1.Endpoint{
		{Addresses: []string{"192.0.2.1"}, Hostname: ptr.To("one")},
		{Addresses: []string{"192.0.2.2"}, Hostname: ptr.To("two"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
	}
	x.setSlice(told)
	x.setPod(newPodAt("web-1", "web", "10.64.0.2", host("web-1", "web")))
	x.setPod(newPodAt("web-2", "web", "10.64.0.3", unready, host("web-2", "web")))
	x.setPod(newPodAt("web-3", "web", "10.64.0.4", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	x.setPod(newPodAt("web-4", "web", ""))
	x.setPod(newPodAt("all-1", "all", "10.64.0.5", unready, host("all-1", "all")))
	x.setPod(newPodAt("stray", "other", "10.64.0.6", host("stray", "web")))
	x.setPod(newPodAt("gone", "web", "10.64.0.7"))
	x.deletePod("ns", "gone")
	x.setNamespace("ns")
	x.setNamespace("removed")
	x.dropNamespace("removed")

	for _, c := range []struct {
		name, ask string
		want      []string
		alias     string
		found     bool
	}{
		{"a Service is its ready pods", "web.ns.svc", []string{"10.64.0.2"}, "", true},
		{"with publishNotReadyAddresses all of them", "all.ns.svc", []string{"10.64.0.5"}, "", true},
		{"without a selector it is nobody", "free.ns.svc", nil, "", true},
		{"but what its EndpointSlices say", "told.ns.svc", []string{"192.0.2.1"}, "", true},
		{"by hostname too", "one.told.ns.svc", []string{"192.0.2.1"}, "", true},
		{"not what they say is unready", "two.told.ns.svc", nil, "", false},
		{"ExternalName is an alias", "away.ns.svc", nil, "example.org", true},
		{"another namespace has its own", "web.other.svc", nil, "", false},
		{"a pod by hostname and subdomain", "web-1.web.ns.svc", []string{"10.64.0.2"}, "", true},
		{"not while it is unready", "web-2.web.ns.svc", nil, "", false},
		{"but with publishNotReadyAddresses", "all-1.all.ns.svc", []string{"10.64.0.5"}, "", true},
		{"not one that the Service does not select", "stray.web.ns.svc", nil, "", false},
		{"without a Service no subdomain", "web-1.none.ns.svc", nil, "", false},
		{"what is no Service's name is nothing", "web.ns.other", nil, "", false},
		{"an address with dashes is that address", "10-64-0-2.ns.pod", []string{"10.64.0.2"}, "", true},
		{"whoever has it", "192-0-2-77.ns.pod", []string{"192.0.2.77"}, "", true},
		{"in a namespace that exists", "10-64-0-2.none.pod", nil, "", false},
		{"which may have been removed", "10-64-0-2.removed.pod", nil, "", false},
		{"with nothing before it", "x.10-64-0-2.ns.pod", nil, "", false},
		{"not a pod's name", "web-1.ns.pod", nil, "", false},
		{"nor what is almost an address", "10-64-0.ns.pod", nil, "", false},
		{"nor one of IPv6", "::1.ns.pod", nil, "", false},
		{"a namespace has no address", "ns.pod", nil, "", true},
		{"if it exists", "none.pod", nil, "", false},
		{"the domain itself is nothing", "", nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			addrs, alias, found := x.Lookup(c.ask)
			var got []string
			for _, a := range addrs {
				got = append(got, a.String())
			}
			if !slices.Equal(got, c.want) || alias != c.alias || found != c.found {
				t.Errorf("got %v %q %v", got, alias, found)
			}
		})
	}
}

func TestFollowTheStore(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(key string, obj runtime.Object) {
		t.Helper()
		value, err := scheme.Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), func(tx *store.Tx) error { tx.Put(store.Object{Key: key, Value: value}); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	x := newIndex()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	put("pods/ns/before", newPodAt("before", "web", "10.64.0.2"))
	go func() { defer close(ended); x.follow(ctx, s, slog.New(slog.DiscardHandler)) }()
	expect := func(want ...string) {
		t.Helper()
		var got []netip.Addr
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			got, _, _ = x.Lookup("web.ns.svc")
			slices.SortFunc(got, netip.Addr.Compare)
			if slices.EqualFunc(got, want, func(a netip.Addr, s string) bool { return a.String() == s }) {
				return
			}
		}
		t.Fatalf("got %v, want %v", got, want)
	}
	put("services/ns/web", newServiceNamed("web"))
	expect("10.64.0.2")
	put("pods/ns/later", newPodAt("later", "web", "10.64.0.3"))
	expect("10.64.0.2", "10.64.0.3")
	put("pods/ns/before", newPodAt("before", "web", "10.64.0.2", unready))
	expect("10.64.0.3")
	if err := s.Update(t.Context(), func(tx *store.Tx) error { tx.Delete("pods/ns/later"); return nil }); err != nil {
		t.Fatal(err)
	}
	expect()
	put("namespaces/late", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if addrs, _, _ := x.Lookup("10-64-0-2.late.pod"); len(addrs) == 1 {
			break
		} else if time.Now().After(end) {
			t.Fatal("a new namespace is not known")
		}
	}
	cancel()
	<-ended
}
