package server

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheAPIKeepsItsName even though somebody clears the namespace that it is in.
func TestTheAPIKeepsItsName(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.PodAPI = netip.MustParseAddrPort("192.0.2.1:443") })
	c := ts.client(t)
	if _, err := c.CoreV1().ResourceQuotas("default").Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: amountsOf("services", "5", "count/endpointslices.discovery.k8s.io", "5")},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := c.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// kubectl delete services --all deletes one by one, other clients the whole collection.
	if err := c.CoreV1().Services("default").Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.DiscoveryV1().EndpointSlices("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	after, err := c.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || after.UID == before.UID || len(after.Spec.Ports) != 1 {
		t.Errorf("%+v: %v", after, err)
	}
	slice, err := c.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != "192.0.2.1" || slice.UID == after.UID {
		t.Errorf("%+v: %v", slice, err)
	}

	q, err := c.CoreV1().ResourceQuotas("default").Get(t.Context(), "q", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for of, n := range q.Status.Used {
		if n.String() != "1" {
			t.Errorf("%s: the quota counts %s of one that was deleted and restored", of, n.String())
		}
	}

	// Nor can a change lead pods astray.
	after.Spec.Ports[0].Port, after.Spec.Selector, after.Labels["mine"] = 8443, map[string]string{"app": "other"}, "kept"
	if _, err := c.CoreV1().Services("default").Update(t.Context(), after, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	slice.Endpoints[0].Addresses = []string{"192.0.2.2"}
	if _, err := c.DiscoveryV1().EndpointSlices("default").Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := c.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || again.UID != after.UID || again.Spec.Ports[0].Port != 443 || again.Spec.Selector != nil || again.Labels["mine"] != "kept" {
		t.Errorf("%+v: %v", again, err)
	}
	slice, err = c.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || slice.Endpoints[0].Addresses[0] != "192.0.2.1" {
		t.Errorf("%+v: %v", slice, err)
	}
}
