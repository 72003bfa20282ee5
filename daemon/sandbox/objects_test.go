package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestPullSecretsAreReadOnceAndBounded(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(name string, size int) {
		t.Helper()
		secret := &corev1.Secret{Data: map[string][]byte{"k": make([]byte, size)}}
		secret.Namespace, secret.Name = "ns", name
		value, err := scheme.Encode(secret)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Update(t.Context(), func(tx *store.Tx) error {
			tx.Put(store.Object{Key: store.Key(objects.Secrets, "ns", name), Value: value})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const half = maxPullSecrets / 2
	write("a", half-10)
	write("b", half-10)
	write("c", half-10)
	many := func(name string) string { return strings.Repeat(name+" ", 5000) }
	for _, c := range []struct {
		rule, refs string
		want       string // the Secrets and those that are missing
	}{
		{"one", "a", "a; "},
		{"one many times", many("a"), "a; "},
		{"as much as is allowed", "a b", "a b; "},
		{"one that is missing, many times", many("x") + "a", "a; x"},
		{"more than is allowed", "a b c", "too large"},
	} {
		p := &corev1.Pod{}
		p.Namespace = "ns"
		for name := range strings.FieldsSeq(c.refs) {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
		}
		found, missing, err := Objects{Store: s}.PullSecrets(p)
		var names []string
		for i := range found {
			names = append(names, found[i].Name)
		}
		got := strings.Join(names, " ") + "; " + strings.Join(missing, " ")
		if errdefs.IsResourceExhausted(err) && strings.HasPrefix(
			err.Error(), fmt.Sprintf("imagePullSecrets: the Secrets take more than %d bytes", maxPullSecrets),
		) {
			got = "too large"
		} else if err != nil {
			t.Error(err)
		}
		if got != c.want {
			t.Errorf("%s: got %.100q, want %q", c.rule, got, c.want)
		}
	}
}
