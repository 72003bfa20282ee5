package upkeep

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func tokenSecret(account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default", UID: "kept", Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

func TestWhatASecretForATokenLacks(t *testing.T) {
	complete := func(edit func(*corev1.Secret)) *corev1.Secret {
		s := tokenSecret("robot")
		s.Annotations[corev1.ServiceAccountUIDKey] = "one"
		s.Data = map[string][]byte{"token": []byte("t"), "ca.crt": []byte("ca"), "namespace": []byte("default")}
		edit(s)
		return s
	}
	for _, tc := range []struct {
		name    string
		secret  *corev1.Secret
		account types.UID
		want    tokenSecretState
	}{
		{"a new one", tokenSecret("robot"), "one", tokenSecretLacking},
		{"one that has all", complete(func(*corev1.Secret) {}), "one", tokenSecretComplete},
		{"no token", complete(func(s *corev1.Secret) { s.Data["token"] = nil }), "one", tokenSecretLacking},
		{"no namespace", complete(func(s *corev1.Secret) { delete(s.Data, "namespace") }), "one", tokenSecretLacking},
		{"another namespace is somebody's wish", complete(func(s *corev1.Secret) { s.Data["namespace"] = []byte("x") }), "one", tokenSecretComplete},
		{"another authority", complete(func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("x") }), "one", tokenSecretLacking},
		{"one that may not be changed", complete(func(s *corev1.Secret) { s.Data, s.Immutable = nil, ptr.To(true) }), "one", tokenSecretComplete},
		{"one that is being deleted", complete(func(s *corev1.Secret) { s.Data, s.DeletionTimestamp = nil, &metav1.Time{} }), "one", tokenSecretComplete},
		{"no account", complete(func(*corev1.Secret) {}), "", tokenSecretOrphaned},
		{"another account of that name", complete(func(*corev1.Secret) {}), "two", tokenSecretOrphaned},
		{
			"one that has all, though not the UID of its account",
			complete(func(s *corev1.Secret) { delete(s.Annotations, corev1.ServiceAccountUIDKey) }), "two", tokenSecretComplete,
		},
	} {
		if got := decideTokenSecret(tc.secret, tc.account, []byte("ca")); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
