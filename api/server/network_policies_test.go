package server

import (
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Whoever writes a NetworkPolicy is warned where it has no effect, and only there.
func TestNetworkPoliciesWithoutABridge(t *testing.T) {
	for name, without := range map[string]bool{"with a bridge": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			ts := startServer(t, func(c *Config) { c.PoliciesWithoutEffect = without })
			w := &warned{}
			config := ts.config()
			config.WarningHandler = w
			c, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			policies := c.NetworkingV1().NetworkPolicies("default")
			p := mustMake(t, policies, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
			p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
			if _, err := policies.Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			const text = "pods have no bridge here, so NetworkPolicies have no effect"
			var want []string
			if without {
				want = []string{text, text}
			}
			if !slices.Equal(w.said, want) {
				t.Errorf("warnings %q, want %q", w.said, want)
			}
		})
	}
}

// The policies of a namespace take so much of the kernel's room together, however many they are; those of another have theirs.
func TestPoliciesOfANamespaceAreBounded(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	of := func(name string, peers int) *networkingv1.NetworkPolicy {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
		for range peers {
			p.Spec.Ingress[0].From = append(p.Spec.Ingress[0].From, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}})
		}
		return p
	}
	policies := c.NetworkingV1().NetworkPolicies("default")
	for _, name := range []string{"a", "b", "c"} {
		mustMake(t, policies, of(name, 5000))
	}
	last := mustMake(t, policies, of("d", 4990))
	const says = "may not come to more than 20000 together"
	if _, err := policies.Create(t.Context(), of("e", 6), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("one more: %v", err)
	}
	mustMake(t, policies, of("e", 5))
	last.Spec = of("d", 4991).Spec
	if _, err := policies.Update(t.Context(), last, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a larger one: %v", err)
	}
	last.Spec = of("d", 1).Spec
	if _, err := policies.Update(t.Context(), last, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a smaller one: %v", err)
	}
	mustMake(t, policies, of("f", 4000))
}
