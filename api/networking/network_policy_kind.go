package networking

// The description of the kind for the server. The rules are in network_policy.go.

import (
	"cmp"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		Table: kind.Columns[*networkingv1.NetworkPolicy]{
			kind.NameColumn[*networkingv1.NetworkPolicy](),
			{Name: "Pod-Selector", Description: doc["podSelector"], Cell: func(p *networkingv1.NetworkPolicy, _ time.Time) any {
				return cmp.Or(metav1.FormatLabelSelector(&p.Spec.PodSelector), "<none>")
			}},
			kind.AgeColumn[*networkingv1.NetworkPolicy](),
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
