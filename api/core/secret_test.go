package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func newSecret(kind corev1.SecretType, data ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", ResourceVersion: "1"}, Type: kind, StringData: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		s.StringData[data[i]] = data[i+1]
	}
	setSecretDefaults(s)
	return s
}

func TestStringDataIsWrittenOverData(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}, StringData: map[string]string{"b": "3", "c": "4"}}
	setSecretDefaults(s)
	if got := fmt.Sprintf("%s %v %s", s.Data, s.StringData, s.Type); got != "map[a:1 b:3 c:4] map[] Opaque" {
		t.Error(got)
	}
}

func TestSecretHoldsWhatItsTypePromises(t *testing.T) {
	for _, tc := range []struct {
		name   string
		secret *corev1.Secret
		want   string
	}{
		{"opaque ones promise nothing", newSecret(""), "[]"},
		{"nor do types of the user's own", newSecret("example.com/mine"), "[]"},
		{"a login without both", newSecret(corev1.SecretTypeBasicAuth), "[data[username]: Required value data[password]: Required value]"},
		{"a login with a name", newSecret(corev1.SecretTypeBasicAuth, "username", ""), "[]"},
		{
			"credentials that are no JSON", newSecret(corev1.SecretTypeDockerConfigJson, ".dockerconfigjson", "{"),
			`[data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": unexpected end of JSON input]`,
		},
		{"credentials that are missing", newSecret(corev1.SecretTypeDockercfg), "[data[.dockercfg]: Required value]"},
		{"an empty key", newSecret(corev1.SecretTypeSSHAuth, "ssh-privatekey", ""), "[data[ssh-privatekey]: Required value]"},
		{"a certificate alone", newSecret(corev1.SecretTypeTLS, "tls.crt", "x"), "[data[tls.key]: Required value]"},
		{"a token of nobody", newSecret(corev1.SecretTypeServiceAccountToken), "[metadata.annotations[kubernetes.io/service-account.name]: Required value]"},
		{"a key that is no file name", newSecret("", "..", "x"), `[data[..]: Invalid value: ".."`},
		{"more than a MiB", newSecret("", "k", strings.Repeat("x", corev1.MaxSecretSize+1)), "[data: Too long: may not be more than 1048576 bytes]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(validateSecret(tc.secret)); !strings.HasPrefix(got, tc.want) {
				t.Error(got)
			}
		})
	}
	if got := secretWarnings(newSecret(corev1.SecretTypeTLS, "tls.crt", "x", "tls.key", "y")); len(got) != 1 {
		t.Errorf("a key that does not fit: %q", got)
	}
	if got := fmt.Sprint(secretTable().Cells(newSecret("", "a", "b"), time.Time{})); got != "[a Opaque 1 <unknown>]" {
		t.Error(got)
	}
}

func TestWhatStaysOfASecret(t *testing.T) {
	old := newSecret("", "a", "b")
	changed := old.DeepCopy()
	changed.Type = corev1.SecretTypeBasicAuth
	if got := fmt.Sprint(validateSecretUpdate(changed, old)[0]); !strings.HasPrefix(got, "type: Invalid value") ||
		!strings.HasSuffix(got, "field is immutable") {
		t.Error(got)
	}
	old.Immutable = ptr.To(true)
	changed = old.DeepCopy()
	changed.Data["a"] = []byte("c")
	if got := fmt.Sprint(validateSecretUpdate(changed, old)); got != "[data: Forbidden: field is immutable when `immutable` is set]" {
		t.Error(got)
	}
}
