package server

import (
	"slices"
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
