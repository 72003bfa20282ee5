package core

// The description of the kind for the server. The rules are in config_map.go.

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// ConfigMapKind describes v1 ConfigMaps.
func ConfigMapKind() *kind.Kind {
	return kind.Of[corev1.ConfigMap, corev1.ConfigMapList](kind.Description[*corev1.ConfigMap]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "ConfigMap",
		ShortNames:   []string{"cm"},
		Namespaced:   true,
		Table:        configMapTable(),
		Rules: kind.Rules[*corev1.ConfigMap]{
			Check:       validateConfigMap,
			CheckUpdate: validateConfigMapUpdate,
		},
	})
}
