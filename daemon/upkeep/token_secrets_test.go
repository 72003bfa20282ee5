package upkeep_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/controltest"
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
func whose(w *controltest.World, secret *corev1.Secret) string {
	w.T.Helper()
	if who, ok, err := w.Tokens().AuthenticateToken(w.T.Context(), string(secret.Data["token"])); err == nil && ok {
		return who.User.GetName()
	}
	return ""
}

func TestSecretKeepsATokenOfItsAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.Put("serviceaccounts/default/robot", robot("one"))
		w.Put(tokenSecretKey, tokenSecret("robot"))
		synctest.Wait()
		first := &corev1.Secret{}
		if !w.Read(tokenSecretKey, first) || whose(w, first) != "system:serviceaccount:default:robot" || string(first.Data["namespace"]) != "default" ||
			string(first.Data["ca.crt"]) != "one authority" || first.Annotations[corev1.ServiceAccountUIDKey] != "one" {
			t.Fatalf("got %+v", first)
		}
		w.Authority = "another authority"
		w.Stop()
		w.Start()
		synctest.Wait()
		second := &corev1.Secret{}
		if !w.Read(tokenSecretKey, second) || string(second.Data["ca.crt"]) != "another authority" ||
			string(second.Data["token"]) != string(first.Data["token"]) {
			t.Errorf("with another authority: %+v", second)
		}

		second.Data = nil
		w.Put(tokenSecretKey, second)
		synctest.Wait()
		third := &corev1.Secret{}
		if !w.Read(tokenSecretKey, third) || whose(w, third) == "" || whose(w, first) != "" {
			t.Errorf("its token was removed: %+v", third)
		}

		w.Write(func(tx *store.Tx) error { tx.Delete("serviceaccounts/default/robot"); return nil })
		synctest.Wait()
		if w.Read(tokenSecretKey, &corev1.Secret{}) {
			t.Error("it outlives its account")
		}
	})
}

func TestSecretForATokenOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.Put(tokenSecretKey, tokenSecret("nobody"))
		opaque := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "default", UID: "mine"}, Type: corev1.SecretTypeOpaque}
		opaque.Data = map[string][]byte{"type": []byte(corev1.SecretTypeServiceAccountToken)}
		w.Put("secrets/default/mine", opaque)
		synctest.Wait()
		if w.Read(tokenSecretKey, &corev1.Secret{}) {
			t.Error("it stays")
		}
		if got := (&corev1.Secret{}); !w.Read("secrets/default/mine", got) || len(got.Data) != 1 {
			t.Errorf("another Secret that has the words became %+v", got)
		}

		// An account that is deleted and made again is another one.
		w.Put("serviceaccounts/default/robot", robot("one"))
		w.Put(tokenSecretKey, tokenSecret("robot"))
		synctest.Wait()
		w.Write(func(tx *store.Tx) error { tx.Delete("serviceaccounts/default/robot"); return nil })
		w.Put("serviceaccounts/default/robot", robot("two"))
		synctest.Wait()
		if w.Read(tokenSecretKey, &corev1.Secret{}) {
			t.Error("it passes to another account of that name")
		}
	})
}
