package image

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/testdata/registry"
)

// secretOf is a pull secret for a registry.
func secretOf(uid, host, user, password string) *runtime.PullSecrets {
	s := dockerConfigSecret(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, basic(user, password)))
	s.UID = types.UID(uid)
	return runtime.NewPullSecrets([]corev1.Secret{s})
}

// What a registry has given for the credentials of one pod is not there for another one that has none of them.
func TestImagesOfOthers(t *testing.T) {
	r := registry.Start(t, registry.Options{User: "me", Password: "S3cr3t"})
	name, _ := r.Push(t, small(t, "private"), "private:1")
	config := filepath.Join(t.TempDir(), "config.json")
	i := newImages(t, Options{DockerConfigPath: config})
	friend := secretOf("a", r.Host, "me", "S3cr3t")
	if _, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, friend, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule    string
		policy  corev1.PullPolicy
		secrets *runtime.PullSecrets
		asks    bool
		refused func(error) bool // nil: it is given
	}{
		{"the same Secret", corev1.PullIfNotPresent, friend, false, nil},
		{"the same Secret, never to be pulled", corev1.PullNever, friend, false, nil},
		{"the same password in another Secret", corev1.PullIfNotPresent, secretOf("b", r.Host, "me", "S3cr3t"), false, nil},
		{"the same Secret with another password", corev1.PullIfNotPresent, secretOf("a", r.Host, "me", "changed"), false, nil},
		{"another password", corev1.PullIfNotPresent, secretOf("c", r.Host, "me", "Gu3ss"), true, errdefs.IsUnauthorized},
		{"none", corev1.PullIfNotPresent, nil, true, errdefs.IsUnauthorized},
		{"none, never to be pulled", corev1.PullNever, nil, false, errdefs.IsNotFound},
	} {
		for _, known := range []bool{true, false} {
			if !known {
				i.forget() // as after a restart
			}
			r.Requests()
			_, err := i.Ensure(t.Context(), name, c.policy, c.secrets, nil)
			if (err == nil) != (c.refused == nil) || err != nil && !c.refused(err) {
				t.Errorf("%s, known %t: %v", c.rule, known, err)
			}
			if asked := r.Requests(); (len(asked) > 0) != c.asks {
				t.Errorf("%s, known %t: the registry was asked %s", c.rule, known, asked)
			}
		}
	}

	// Who has the machine's credentials, which is everybody, has the image from then on.
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, r.Host, basic("me", "S3cr3t")), 0o600); err != nil {
		t.Fatal(err)
	}
	ensure(t, i, name, corev1.PullIfNotPresent)
	r.Requests()
	ensure(t, i, name, corev1.PullNever)
	if asked := r.Requests(); len(asked) > 0 {
		t.Errorf("asked %s for what is everybody's", asked)
	}
}

// An image for which the registry did not ask who wants it is everybody's, and so is one that was imported by hand.
func TestImagesOfEverybody(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	name, _ := r.Push(t, small(t, "public"), "public:1")
	i := newImages(t, Options{})
	if _, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, secretOf("a", r.Host, "me", "x"), nil); err != nil {
		t.Fatal(err)
	}
	ensure(t, i, name, corev1.PullNever)

	closed := registry.Start(t, registry.Options{User: "me", Password: "S3cr3t"})
	name, _ = closed.Push(t, small(t, "private"), "private:1")
	if _, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, secretOf("a", closed.Host, "me", "S3cr3t"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Import(t.Context(), small(t, "imported", name).Docker(), ""); err != nil {
		t.Fatal(err)
	}
	ensure(t, i, name, corev1.PullNever)
}

// The list of credentials stays within what a label may hold, and keeps the latest.
func TestAccessIsBounded(t *testing.T) {
	a := access{"0/x"}
	var last keyring
	for n := range 500 {
		keys, err := keyringOf(secretOf(fmt.Sprintf("%036d", n), "a.io", "me", fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		last, a = keys, a.plus(keys[0].credential)
	}
	if size := len(strings.Join(a, ",")); size > 4000 || !a.allows(last) || slices.Contains(a, "0/x") {
		t.Errorf("%d bytes: %s", size, a)
	}
}

// A note of its use does not make an imported image one that a registry would bring again.
func TestNoteOfUseOfAnImageThatHasChanged(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	name, _ := r.Push(t, small(t, "pulled"), "pulled:1")
	i := newImages(t, Options{})
	ensure(t, i, name, corev1.PullIfNotPresent)
	get := func() images.Image {
		stored, err := i.client.ImageService().Get(inNamespace(t), name)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	before := get()
	if _, err := i.Import(t.Context(), small(t, "imported", name).Docker(), ""); err != nil {
		t.Fatal(err)
	}
	imported := get()
	i.mu.Lock()
	i.used[name] = imported.UpdatedAt.Add(2 * usePrecision)
	i.mu.Unlock()
	if err := i.noteUse(inNamespace(t), before); err != nil {
		t.Fatal(err)
	}
	if now := get(); !now.UpdatedAt.After(imported.UpdatedAt) || now.Labels[labelPulled] != "" || now.Target.Digest != imported.Target.Digest {
		t.Errorf("it was %+v and is %+v", imported, now)
	}
}
