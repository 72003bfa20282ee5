package image

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/engine"
	"github.com/jobd/jobd/testdata/docker"
	"github.com/jobd/jobd/testdata/registry"
)

func idOf(t testing.TB, img v1.Image) string {
	t.Helper()
	id, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// What Docker has is taken before a registry is asked, and again once the name means another image there.
func TestImagesOfAnEngine(t *testing.T) {
	d := docker.Start(t)
	i := newImages(t, Options{Engines: []engine.Engine{{Name: engine.Podman, Socket: d.Socket + ".none"}, {Name: engine.Docker, Socket: d.Socket}}})
	first, second, third := small(t, "first"), small(t, "second"), small(t, "third")
	name, full := "127.0.0.1:1/x:1", "127.0.0.1:1/x:1"
	d.Tag(name, first)
	lines := 0
	ensure := func(rule string, policy corev1.PullPolicy, want v1.Image, asked ...string) {
		t.Helper()
		img, err := i.Ensure(t.Context(), name, policy, nil, func(string) { lines++ })
		if want == nil {
			if err == nil {
				t.Errorf("%s: %+v", rule, img)
			}
		} else if err != nil || img.ID != idOf(t, want) || img.Name != full {
			t.Errorf("%s: %+v: %v", rule, img, err)
		}
		if got := d.Requests(); !slices.Equal(got, asked) {
			t.Errorf("%s: docker was asked %q, want %q", rule, got, asked)
		}
	}
	look := "GET /images/" + full + "/json"
	get := func(img v1.Image) string {
		return "GET /images/" + strings.TrimPrefix(idOf(t, img), "sha256:") + "/get"
	}

	ensure("Never looks only at what is here", corev1.PullNever, nil)
	ensure("Always asks the registry", corev1.PullAlways, nil)
	ensure("IfNotPresent", corev1.PullIfNotPresent, first, look, get(first))
	if lines == 0 {
		t.Error("no progress was told")
	}
	if list, err := i.List(t.Context()); err != nil || len(list) != 1 || list[0].Engine != "docker" {
		t.Errorf("%+v: %v", list, err)
	}
	ensure("of what has not changed nothing is taken", "", first, look)
	d.Tag(name, second)
	ensure("Never takes nothing anew", corev1.PullNever, first)
	ensure("a changed tag", corev1.PullIfNotPresent, second, look, get(second))
	ensure("and not again", corev1.PullIfNotPresent, second, look)
	d.Tag(name, nil)
	ensure("what docker has no more is here", corev1.PullIfNotPresent, second, look)
	ensure("Never", corev1.PullNever, second)

	// What was imported by hand stays what it is.
	if _, err := i.Import(t.Context(), third.Docker(), name); err != nil {
		t.Fatal(err)
	}
	d.Tag(name, first)
	ensure("an imported image", corev1.PullIfNotPresent, third)
	if list, err := i.List(t.Context()); err != nil || len(list) != 1 || list[0].Engine != "" {
		t.Errorf("%+v: %v", list, err)
	}
}

// An image that Docker does not have, or that is no use here, comes from the registry; one that cannot be taken does not, since the name
// would mean another one there.
func TestEnginesThatDoNotGive(t *testing.T) {
	d := docker.Start(t)
	r := registry.Start(t, registry.Options{})
	i := newImages(t, Options{Engines: []engine.Engine{{Name: engine.Docker, Socket: d.Socket}}, StallTimeout: 100 * time.Millisecond})
	theirs, ours := small(t, "of the registry"), small(t, "of docker")
	name, _ := r.Push(t, theirs.Image, "x:1")
	ensure := func() (string, error) {
		img, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, nil, nil)
		if err == nil {
			if err := i.Remove(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		return img.ID, err
	}
	if id, err := ensure(); err != nil || id != idOf(t, theirs) {
		t.Errorf("docker has none: %s, %v", id, err)
	}
	file, err := ours.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.Architecture = "s390x"
	foreign, err := mutate.ConfigFile(ours.Image, file)
	if err != nil {
		t.Fatal(err)
	}
	d.Tag(name, foreign)
	if id, err := ensure(); err != nil || id != idOf(t, theirs) {
		t.Errorf("docker has one for another platform: %s, %v", id, err)
	}
	if _, err := i.Ensure(t.Context(), strings.Replace(name, "x:1", "y:1", 1), corev1.PullIfNotPresent, nil, nil); !errdefs.IsNotFound(err) {
		t.Errorf("nobody has it: %v", err)
	}
	d.Tag(strings.Replace(name, "x:1", "y:1", 1), foreign)
	if _, err := i.Ensure(t.Context(), strings.Replace(name, "x:1", "y:1", 1), corev1.PullIfNotPresent, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "the image of docker is for linux/s390x") {
		t.Errorf("only docker has it, for another platform: %v", err)
	}
	d.Tag(name, ours)
	for _, c := range []struct {
		rule string
		get  http.HandlerFunc
		want string
	}{
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"message": "disk broken"}`, 500) }, "does not give image"},
		{"no archive", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, "archive"},
		{"silence", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("begin"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "docker sent nothing for 100ms"},
		{"silence before it", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "docker sent nothing for 1s"},
	} {
		d.Wrap(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/get") {
					c.get(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
		})
		if id, err := ensure(); err == nil || !strings.HasPrefix(err.Error(), "take "+name+" from docker: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s, %v", c.rule, id, err)
		}
	}
	d.Wrap(func(http.Handler) http.Handler { return http.NotFoundHandler() })
	if id, err := ensure(); err != nil || id != idOf(t, theirs) {
		t.Errorf("docker has it no more: %s, %v", id, err)
	}
	d.Wrap(nil)
	if id, err := ensure(); err != nil || id != idOf(t, ours) {
		t.Errorf("docker works again: %s, %v", id, err)
	}
}
