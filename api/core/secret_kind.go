package core

// The description of the kind for the server. The rules are in secret.go.

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// SecretKind describes v1 Secrets.
func SecretKind() *kind.Kind {
	return kind.Of[corev1.Secret, corev1.SecretList](kind.Description[*corev1.Secret]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "Secret",
		Namespaced:   true,
		Default:      setSecretDefaults,
		Fields:       secretFields(),
		Table:        secretTable(),
		Rules: kind.Rules[*corev1.Secret]{
			Check:       validateSecret,
			CheckUpdate: validateSecretUpdate,
			Warn:        secretWarnings,
			WarnUpdate:  func(s, _ *corev1.Secret) []string { return secretWarnings(s) },
		},
	})
}
