package tokens

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

func TestHowLongATokenInASecretIsGood(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(w *world, secret *corev1.Secret)
		err  string
	}{
		{"at once", func(*world, *corev1.Secret) {}, ""},
		{"in a hundred years", func(w *world, _ *corev1.Secret) { w.time = w.time.AddDate(100, 0, 0) }, ""},
		{"not without the secret", func(w *world, _ *corev1.Secret) { w.remove("secrets", "ns", "kept") }, `ended with the secret "kept"`},
		{
			"not when the secret has another one",
			func(_ *world, s *corev1.Secret) { s.Data["token"] = append(s.Data["token"], 'x') }, `ended with the secret "kept"`,
		},
		{"not when the secret has none", func(_ *world, s *corev1.Secret) { s.Data = nil }, `ended with the secret "kept"`},
		{"not in a secret of another type", func(_ *world, s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, `ended with the secret "kept"`},
		{"not in a secret of another name", func(w *world, s *corev1.Secret) {
			w.put("secrets", s.DeepCopy(), "ns", "other", "other")
			s.Data = nil
		}, `ended with the secret "kept"`},
		{"not when a label says so", func(_ *world, s *corev1.Secret) { s.Labels = map[string]string{invalidSince: "2026-01-01"} }, "is not valid"},
		{"not when the secret should long be gone", func(w *world, s *corev1.Secret) {
			s.DeletionTimestamp = &metav1.Time{Time: w.time.Add(-2 * time.Minute)}
		}, `secret "kept" is deleted`},
		{"not without its account", func(w *world, _ *corev1.Secret) { w.remove("serviceaccounts", "ns", "robot") }, `ended with serviceaccount "robot"`},
		{"not for another account of that name", func(w *world, _ *corev1.Secret) {
			w.put("serviceaccounts", &corev1.ServiceAccount{}, "ns", "robot", "other")
		}, `ended with serviceaccount "robot"`},
		{"not with another key", func(w *world, _ *corev1.Secret) { w.Tokens = w.issuer(w.store) }, "error in cryptographic primitive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			token, err := w.ForSecret("ns", "kept", Ref{"robot", "account"})
			if err != nil {
				t.Fatal(err)
			}
			secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(token)}}
			c.then(w, secret)
			if !strings.Contains(c.name, "without the secret") {
				w.put("secrets", secret, "ns", "kept", "kept")
			}
			who, ok, err := w.AuthenticateToken(t.Context(), token)
			switch {
			case c.err == "" && (err != nil || !ok || who.User.GetName() != "system:serviceaccount:ns:robot" || who.User.GetUID() != "account"):
				t.Errorf("got %+v, %v, %v", who, ok, err)
			case c.err != "" && (ok || err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %+v, %v, want %q", who, err, c.err)
			}
			others := authenticator.WithAudiences(t.Context(), authenticator.Audiences{"vault"})
			if _, ok, _ := w.AuthenticateToken(others, token); ok {
				t.Error("it is for others than this API")
			}
		})
	}
}

// One key signs all tokens, so what a token says must not let it pass for one of the other kind.
func TestTokensOfTheTwoKindsAreNotConfused(t *testing.T) {
	w := newWorld(t)
	token, err := w.sign(map[string]any{
		"iss": secretIssuer, "sub": "system:serviceaccount:ns:robot", "aud": []string{Audience},
		"kubernetes.io/serviceaccount/namespace": "ns", "kubernetes.io/serviceaccount/secret.name": "kept",
		"kubernetes.io/serviceaccount/service-account.name": "robot", "kubernetes.io/serviceaccount/service-account.uid": "account",
		"kubernetes.io": map[string]any{"namespace": "ns", "serviceaccount": Ref{"robot", "account"}, "pod": Ref{"p", "pod"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := w.AuthenticateToken(t.Context(), token); ok {
		t.Error("the token of a Secret is good without the Secret, for what it says of a pod")
	}
	if next, err := w.ForPod(w.pod(), "", time.Hour, token); err != nil || next == token {
		t.Errorf("a pod keeps the token of a Secret: %v", err)
	}
	bound, _, err := w.Issue(Request{Namespace: "ns", Account: Ref{"robot", "account"}, Life: time.Hour, Pod: &Ref{"p", "pod"}})
	if err != nil {
		t.Fatal(err)
	}
	w.put("secrets", &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(bound)}}, "ns", "kept", "kept")
	w.remove("pods", "ns", "p")
	if _, ok, _ := w.AuthenticateToken(t.Context(), bound); ok {
		t.Error("a Secret keeps the token of a pod good that is gone")
	}
}
