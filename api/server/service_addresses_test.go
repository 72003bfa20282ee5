package server

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

func withServiceAddresses(c *Config) { c.ServiceAddresses = netip.MustParsePrefix("10.96.0.0/29") }

// asked creates a Service and returns it, or what the server says.
func asked(t *testing.T, c *kubernetes.Clientset, name string, edit ...func(*corev1.ServiceSpec)) (*corev1.Service, string) {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	for _, e := range edit {
		e(&s.Spec)
	}
	s, err := c.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		return nil, err.Error()
	}
	return s, ""
}

func at(ip string) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.ClusterIP = ip }
}

func onPort(port int32) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, port }
}

func TestServiceAddresses(t *testing.T) {
	ts := startServer(t, withServiceAddresses)
	c := ts.client(t)
	// The range has six addresses.
	seen := map[string]bool{}
	wanted, said := asked(t, c, "wanted", at("10.96.0.3"))
	if said != "" || wanted.Spec.ClusterIP != "10.96.0.3" || len(wanted.Spec.ClusterIPs) != 1 {
		t.Fatalf("%v %s", wanted, said)
	}
	seen["10.96.0.3"] = true
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s, said := asked(t, c, name)
		if said != "" || seen[s.Spec.ClusterIP] || !netip.MustParsePrefix("10.96.0.0/29").Contains(netip.MustParseAddr(s.Spec.ClusterIP)) {
			t.Fatalf("%s: %v %s", name, s, said)
		}
		seen[s.Spec.ClusterIP] = true
	}
	for name, c2 := range map[string]struct {
		ip, says string
	}{
		"one more": {"", "failed to allocate an IP"},
		"taken":    {"10.96.0.3", `spec.clusterIPs: Invalid value: ["10.96.0.3"]: failed to allocate IP 10.96.0.3: provided IP is already allocated`},
		"outside":  {"10.97.0.1", "failed to allocate IP 10.97.0.1: provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/29"},
		"network":  {"10.96.0.0", "provided IP is not in the valid range"},
	} {
		if _, said := asked(t, c, "more", at(c2.ip)); !strings.Contains(said, c2.says) {
			t.Errorf("%s: %q", name, said)
		}
	}
	if s, said := asked(t, c, "headless", at("None")); said != "" || s.Spec.ClusterIP != "None" {
		t.Errorf("headless: %v %s", s, said)
	}
	if err := c.CoreV1().Services("default").Delete(t.Context(), "wanted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if s, said := asked(t, c, "again"); said != "" || s.Spec.ClusterIP != "10.96.0.3" {
		t.Errorf("after one is free: %v %s", s, said)
	}
	again, err := c.CoreV1().Services("default").Patch(
		t.Context(), "again", "application/merge-patch+json", []byte(`{"spec":{"clusterIP":"10.96.0.4"}}`), metav1.PatchOptions{},
	)
	if err == nil || !strings.Contains(err.Error(), "may not change once set") && !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("changed: %v, %v", again, err)
	}
}

func TestNodePorts(t *testing.T) {
	// 30100 and more are taken, but for one.
	ts := startServer(t, withServiceAddresses, func(c *Config) {
		c.PortTaken = func(protocol corev1.Protocol, port uint16) error {
			if protocol == corev1.ProtocolTCP && port >= 30100 && port != 31111 {
				return errors.New("a pod has it")
			}
			return nil
		}
	})
	c := ts.client(t)
	if s, said := asked(t, c, "udp", onPort(30100), func(s *corev1.ServiceSpec) { s.Ports[0].Protocol = corev1.ProtocolUDP }); said != "" ||
		s.Spec.Ports[0].NodePort != 30100 {
		t.Errorf("another protocol: %v %s", s, said)
	}
	s, said := asked(t, c, "any", onPort(0))
	if said != "" || s.Spec.Ports[0].NodePort < 30000 || s.Spec.Ports[0].NodePort >= 30100 && s.Spec.Ports[0].NodePort != 31111 {
		t.Errorf("any: %v %s", s, said)
	}
	if s, said := asked(t, c, "mine", onPort(30080)); said != "" || s.Spec.Ports[0].NodePort != 30080 {
		t.Errorf("mine: %v %s", s, said)
	}
	for port, says := range map[int32]string{
		30080: "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
		30101: "spec.ports[0].nodePort: Invalid value: 30101: provided port is already allocated: a pod has it",
		80:    "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
	} {
		if _, said := asked(t, c, "not", onPort(port)); !strings.Contains(said, says) {
			t.Errorf("%d: %q", port, said)
		}
	}
	external := func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.1"} }
	patch := func(c *kubernetes.Clientset, name, change string) error {
		_, err := c.CoreV1().Services("default").Patch(t.Context(), name, "application/merge-patch+json", []byte(change), metav1.PatchOptions{})
		return err
	}
	roles := []string{"role=submit&namespace=default", "role=admin&namespace=default", "role=submit"}
	for _, role := range roles {
		// CVE-2020-8554: who may create Services may not thereby take the traffic of others.
		if _, said := asked(t, ts.limited(t, role), "taken", external); !strings.Contains(said, "spec.externalIPs[0]: ") ||
			!strings.Contains(said, "only who may update nodes") {
			t.Errorf("%s: %q", role, said)
		}
		// Neither by a Service without an address that becomes one with an address.
		if _, said := asked(
			t, ts.limited(t, role), "alias", external,
			func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com" },
		); said != "" {
			t.Errorf("%s: %s", role, said)
		}
		if err := patch(ts.limited(t, role), "alias", `{"spec":{"type":"ClusterIP","externalName":null}}`); err == nil ||
			!strings.Contains(err.Error(), "spec.externalIPs[0]: ") {
			t.Errorf("%s, an alias before: %v", role, err)
		}
		if err := c.CoreV1().Services("default").Delete(t.Context(), "alias", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		// A namespace that takes pods with host ports takes Services with some.
		if _, said := asked(t, ts.limited(t, role), "open", onPort(30011)); said != "" {
			t.Errorf("%s: %s", role, said)
		}
		if err := c.CoreV1().Services("default").Delete(t.Context(), "open", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, said := asked(t, c, "later"); said != "" {
		t.Fatal(said)
	}
	if _, err := c.CoreV1().Namespaces().Patch(
		t.Context(), "default", "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`), metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		limited := ts.limited(t, role)
		if _, said := asked(t, limited, "taken", onPort(0)); !strings.Contains(said, "spec.ports[0].nodePort: it opens a port of the machine") ||
			!strings.Contains(said, "only who may update nodes") {
			t.Errorf("%s: %q", role, said)
		}
		if err := patch(limited, "later", `{"spec":{"type":"NodePort"}}`); err == nil ||
			!strings.Contains(err.Error(), "spec.ports[0].nodePort: it opens a port of the machine") {
			t.Errorf("%s, later: %v", role, err)
		}
		if err := patch(limited, "later", `{"spec":{"externalIPs":["192.0.2.1"]}}`); err == nil || !strings.Contains(err.Error(), "spec.externalIPs[0]: ") {
			t.Errorf("%s, later: %v", role, err)
		}
	}
	admin := ts.limited(t, "role=admin")
	if _, said := asked(t, admin, "allowed", external, onPort(30012)); said != "" {
		t.Errorf("an administrator: %s", said)
	}
	// What an administrator has set up may be changed otherwise.
	for _, name := range []string{"mine", "allowed"} {
		if err := patch(ts.limited(t, "role=submit"), name, `{"metadata":{"labels":{"a":"b"}}}`); err != nil {
			t.Error(err)
		}
	}
}

// Two writes at the same time get different addresses, and one that fails does not free that of the other.
func TestConcurrentServicesHaveDifferentAddresses(t *testing.T) {
	ts := startServer(t)
	config := Config{Store: ts.store}
	withServiceAddresses(&config)
	a, err := newServiceAddresses(&config)
	if err != nil {
		t.Fatal(err)
	}
	service := func(name string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.3", Ports: []corev1.ServicePort{{Port: 80}}},
		}
	}
	finish, err := a.create(t.Context(), service(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.create(t.Context(), service(""), nil); err == nil {
		t.Error("two new Services have got the same address")
	}
	finish(t.Context(), false)

	failed, err := a.create(t.Context(), service("same"), nil)
	if err != nil {
		t.Fatal(err)
	}
	stored := service("same")
	written, err := a.create(t.Context(), stored, nil)
	if err != nil {
		t.Fatal(err)
	}
	value, err := scheme.Encode(stored)
	if err == nil {
		err = ts.store.Update(t.Context(), func(tx *store.Tx) error {
			tx.Put(store.Object{Key: serviceKey(stored), UID: "u", Value: value})
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	written(t.Context(), true)
	failed(t.Context(), false)
	if _, err := a.create(t.Context(), service("other"), nil); err == nil {
		t.Error("another Service has got the address of one")
	}
}

// TestServicesFromBeforeVirtualAddresses: those that had none get one when the server starts with a range.
func TestServicesFromBeforeVirtualAddresses(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	for name, port := range map[string]int32{"mapped": 8080, "headless": 80, "external": 8080} {
		if s, said := asked(t, c, name, func(s *corev1.ServiceSpec) {
			if s.Ports[0].TargetPort.IntVal = port; name == "external" {
				s.ExternalIPs = []string{"192.0.2.1"}
			}
		}); said != "" || isAddress(s.Spec.ClusterIP) {
			t.Fatalf("%s: %v %s", name, s, said)
		}
	}
	config := Config{Store: ts.store}
	withServiceAddresses(&config)
	if _, err := newServiceAddresses(&config); err != nil {
		t.Fatal(err)
	}
	for name, has := range map[string]bool{"mapped": true, "headless": false, "external": false} {
		s, err := c.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || isAddress(s.Spec.ClusterIP) != has {
			t.Errorf("%s: %v %v", store.Key("services", "default", name), s, err)
		}
	}
}

// The Services of a namespace have so many ports together, however they are distributed; those of another have theirs.
func TestPortsOfANamespaceAreBounded(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.ServiceAddresses = netip.MustParsePrefix("10.96.0.0/20") })
	c := ts.client(t)
	ports := func(n int) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) {
			s.Ports = nil
			for i := range n {
				s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(1 + i)})
			}
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, said := asked(t, c, name, ports(500)); said != "" {
			t.Fatal(said)
		}
	}
	const says = "spec.ports: Forbidden: the Services of a namespace may not have more than 2000 ports together, and would have 2001"
	if _, said := asked(t, c, "large", ports(501)); !strings.Contains(said, "spec.ports: Too many: 501: must have at most 500 items") {
		t.Error(said)
	}
	d, said := asked(t, c, "d", ports(499))
	if said != "" {
		t.Fatal(said)
	}
	if _, said := asked(t, c, "e", ports(2)); !strings.Contains(said, says) {
		t.Error(said)
	}
	if _, said := asked(t, c, "headless", ports(2), at("None")); said != "" {
		t.Error(said)
	}
	if _, said := asked(t, c, "e", ports(1)); said != "" {
		t.Error(said)
	}
	ports(500)(&d.Spec)
	if _, err := c.CoreV1().Services("default").Update(t.Context(), d, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("more ports for one that is there: %v", err)
	}
	ports(400)(&d.Spec)
	if _, err := c.CoreV1().Services("default").Update(t.Context(), d, metav1.UpdateOptions{}); err != nil {
		t.Errorf("fewer: %v", err)
	}
	if _, said := asked(t, c, "f", ports(99)); said != "" {
		t.Error(said)
	}
}
