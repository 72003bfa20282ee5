package image

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/registry"
)

// A registry of somebody else does not get a private image by its digest, which is no secret.
func TestRegistriesShowWhatTheyName(t *testing.T) {
	secret := strings.Repeat("secret ", 10_000)
	theirs := registry.Start(t, registry.Options{User: "me", Password: "S3cr3t"})
	name, digest := theirs.Push(t, small(t, secret), "corp/app:1")
	manifest := func(req *http.Request) bool { return strings.Contains(req.URL.Path, "/manifests/") }
	for rule, tc := range map[string]struct {
		wrap func(next http.Handler) http.Handler
		push bool // the same image
		ok   bool
	}{
		"it has nothing": {func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodHead && manifest(req) {
					w.Header().Set("Docker-Content-Digest", digest)
					w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
					w.Header().Set("Content-Length", "400")
					return
				}
				w.WriteHeader(http.StatusNotFound)
			})
		}, false, false},
		"it makes something up": {func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if manifest(req) {
					w.Header().Set("Docker-Content-Digest", digest)
					w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				}
				_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
			})
		}, false, false},
		"it has it": {nil, true, true},
	} {
		t.Run(rule, func(t *testing.T) {
			i := newImages(t, Options{})
			if _, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, secretOf("a", theirs.Host, "me", "S3cr3t"), nil); err != nil {
				t.Fatal(err)
			}
			mine := registry.Start(t, registry.Options{Wrap: tc.wrap})
			ref := mine.Host + "/corp/app:1"
			if tc.push {
				ref, _ = mine.Push(t, small(t, secret), "corp/app:1")
			}
			_, err := i.Ensure(t.Context(), ref, corev1.PullIfNotPresent, nil, nil)
			if (err == nil) != tc.ok {
				t.Error(err)
			}
			_, err = i.Ensure(t.Context(), fmt.Sprintf("%s/corp/app@%s", mine.Host, digest), corev1.PullIfNotPresent, nil, nil)
			if (err == nil) != tc.ok {
				t.Error("by digest: ", err)
			}
		})
	}
}
