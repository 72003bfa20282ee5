package networking

// The description of the kind for the server. The rules are in network_policy.go.

import (
	"cmp"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
)

// NetworkPolicyKind describes networking.k8s.io/v1 NetworkPolicies.
func NetworkPolicyKind() *kind.Kind {
	doc := networkingv1.NetworkPolicySpec{}.SwaggerDoc()
	return kind.Of[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](kind.Description[*networkingv1.NetworkPolicy]{
		GroupVersion: networkingv1.SchemeGroupVersion,
		Name:         "NetworkPolicy",
		ShortNames:   []string{"netpol"},
		Namespaced:   true,
		Default:      SetNetworkPolicyDefaults,
		Columns: []metav1.TableColumnDefinition{
			kind.NameColumn(),
			{Name: "Pod-Selector", Type: "string", Description: doc["podSelector"]},
			kind.AgeColumn(),
		},
		Cells: func(p *networkingv1.NetworkPolicy, now time.Time) []any {
			return []any{
				p.Name, cmp.Or(metav1.FormatLabelSelector(&p.Spec.PodSelector), "<none>"), core.Age(p.CreationTimestamp, now),
			}
		},
		Rules: kind.Rules[*networkingv1.NetworkPolicy]{
			Create:      func(p *networkingv1.NetworkPolicy) { p.Generation = 1 },
			Update:      prepareNetworkPolicyUpdate,
			Check:       validateNetworkPolicy,
			CheckUpdate: validateNetworkPolicyUpdate,
			Warn:        networkPolicyWarnings,
			WarnUpdate:  func(p, _ *networkingv1.NetworkPolicy) []string { return networkPolicyWarnings(p) },
		},
	})
}
