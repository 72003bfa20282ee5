package core

// The description of the kind for the server. The rules are in service.go.

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// ServiceKind describes v1 Services.
func ServiceKind() *kind.Kind {
	return kind.Of[corev1.Service, corev1.ServiceList](kind.Description[*corev1.Service]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "Service",
		ShortNames:   []string{"svc"}, Categories: []string{"all"},
		Namespaced: true,
		Default:    SetServiceDefaults,
		Table:      serviceTable(),
		Fields: map[string]func(*corev1.Service) string{
			"spec.clusterIP": func(s *corev1.Service) string { return s.Spec.ClusterIP },
			"spec.type":      func(s *corev1.Service) string { return string(s.Spec.Type) },
		},
		Rules: kind.Rules[*corev1.Service]{
			Create:      prepareService,
			Update:      prepareServiceUpdate,
			Check:       validateNewService,
			CheckUpdate: validateServiceUpdate,
			Warn:        serviceWarnings,
			WarnUpdate:  func(s, _ *corev1.Service) []string { return serviceWarnings(s) },
		},
	})
}
