package control

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/store"
)

const tokenSecretKey = "secrets/default/kept"

func tokenSecret(account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default", UID: "kept", Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

func robot(uid types.UID) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default", UID: uid}}
}

// whose returns whose token a Secret keeps, if the API takes it.
func (w *world) whose(secret *corev1.Secret) string {
	w.t.Helper()
	if who, ok, err := w.tokens().AuthenticateToken(w.t.Context(), string(secret.Data["token"])); err == nil && ok {
		return who.User.GetName()
	}
	return ""
}

func TestSecretKeepsATokenOfItsAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.put("serviceaccounts/default/robot", robot("one"))
		w.put(tokenSecretKey, tokenSecret("robot"))
		synctest.Wait()
		first := &corev1.Secret{}
		if !w.read(tokenSecretKey, first) || w.whose(first) != "system:serviceaccount:default:robot" || string(first.Data["namespace"]) != "default" ||
			string(first.Data["ca.crt"]) != "one authority" || first.Annotations[corev1.ServiceAccountUIDKey] != "one" {
			t.Fatalf("got %+v", first)
		}
		w.authority = "another authority"
		w.stop()
		w.start()
		synctest.Wait()
		second := &corev1.Secret{}
		if !w.read(tokenSecretKey, second) || string(second.Data["ca.crt"]) != "another authority" || string(second.Data["token"]) != string(first.Data["token"]) {
			t.Errorf("with another authority: %+v", second)
		}

		second.Data = nil
		w.put(tokenSecretKey, second)
		synctest.Wait()
		third := &corev1.Secret{}
		if !w.read(tokenSecretKey, third) || w.whose(third) == "" || w.whose(first) != "" {
			t.Errorf("its token was removed: %+v", third)
		}

		w.write(func(tx *store.Tx) error { tx.Delete("serviceaccounts/default/robot"); return nil })
		synctest.Wait()
		if w.read(tokenSecretKey, &corev1.Secret{}) {
			t.Error("it outlives its account")
		}
	})
}

func TestSecretForATokenOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.put(tokenSecretKey, tokenSecret("nobody"))
		opaque := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "default", UID: "mine"}, Type: corev1.SecretTypeOpaque}
		opaque.Data = map[string][]byte{"type": []byte(corev1.SecretTypeServiceAccountToken)}
		w.put("secrets/default/mine", opaque)
		synctest.Wait()
		if w.read(tokenSecretKey, &corev1.Secret{}) {
			t.Error("it stays")
		}
		if got := (&corev1.Secret{}); !w.read("secrets/default/mine", got) || len(got.Data) != 1 {
			t.Errorf("another Secret that has the words became %+v", got)
		}

		// An account that is deleted and made again is another one.
		w.put("serviceaccounts/default/robot", robot("one"))
		w.put(tokenSecretKey, tokenSecret("robot"))
		synctest.Wait()
		w.write(func(tx *store.Tx) error { tx.Delete("serviceaccounts/default/robot"); return nil })
		w.put("serviceaccounts/default/robot", robot("two"))
		synctest.Wait()
		if w.read(tokenSecretKey, &corev1.Secret{}) {
			t.Error("it passes to another account of that name")
		}
	})
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
		{"one that has all, though not the UID of its account", complete(func(s *corev1.Secret) { delete(s.Annotations, corev1.ServiceAccountUIDKey) }), "two", tokenSecretComplete},
	} {
		if got := decideTokenSecret(tc.secret, tc.account, []byte("ca")); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
