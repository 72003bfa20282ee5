package core

// The description of the kind for the server. The rules are in resource_quota.go.

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// setResourceQuotaDefaults rounds amounts, as those of pods are, so that what is compared with them has the same accuracy.
func setResourceQuotaDefaults(q *corev1.ResourceQuota) {
	for _, list := range []corev1.ResourceList{q.Spec.Hard, q.Status.Hard, q.Status.Used} {
		roundResources(list)
	}
}

// ResourceQuotaKind describes v1 ResourceQuotas. The status is written by the store, with what it counts.
func ResourceQuotaKind() *kind.Kind {
	return kind.Of[corev1.ResourceQuota, corev1.ResourceQuotaList](kind.Description[*corev1.ResourceQuota]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "ResourceQuota",
		ShortNames:   []string{"quota"},
		Namespaced:   true,
		Table:        resourceQuotaTable(),
		Default:      setResourceQuotaDefaults,
		Rules: kind.Rules[*corev1.ResourceQuota]{
			Create:      func(q *corev1.ResourceQuota) { q.Status = corev1.ResourceQuotaStatus{} },
			Update:      func(q, old *corev1.ResourceQuota) { q.Status = old.Status },
			Check:       validateResourceQuota,
			CheckUpdate: validateResourceQuotaUpdate,
			Warn:        resourceQuotaWarnings,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*corev1.ResourceQuota]{
			"status": {
				// What is used is counted, and nothing else: a client's word for it changes nothing.
				Update:      func(q, old *corev1.ResourceQuota) { q.Spec, q.Status = old.Spec, old.Status },
				CheckUpdate: validateResourceQuotaUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}
