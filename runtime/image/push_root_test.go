package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/registry"
)

// layered makes an image with a file in each layer, the lowest first.
func layered(t testing.TB, files ...string) images.Image {
	t.Helper()
	var trees []*images.Tree
	for n, content := range files {
		tree := images.NewTree()
		tree.Text(fmt.Sprintf("/%d", n), 0o644, content)
		trees = append(trees, tree)
	}
	img, err := images.FromLayers(v1.Config{Cmd: []string{"/0"}}, nil, trees...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestPush(t *testing.T) {
	r := registry.Start(t, registry.Options{User: "alice", Password: "secret"})
	i := newImages(t, Options{})
	img := layered(t, strings.Repeat("base", 1000), "top")
	if _, err := i.Import(t.Context(), img.Docker(), "x:1"); err != nil {
		t.Fatal(err)
	}
	to := r.Host + "/team/x:1"
	with := &runtime.Credentials{Username: "alice", Password: "secret"}
	for _, c := range []struct {
		rule, ref, to string
		with          *runtime.Credentials
		class         error
	}{
		{"without credentials", "x:1", to, nil, errdefs.ErrUnauthenticated},
		{"with wrong ones", "x:1", to, &runtime.Credentials{Username: "alice", Password: "x"}, errdefs.ErrUnauthenticated},
		{"what is not here", "y:1", to, with, errdefs.ErrNotFound},
		{"to a digest", "x:1", r.Host + "/x@sha256:" + strings.Repeat("a", 64), with, errdefs.ErrInvalidArgument},
		{"to what is no name", "x:1", "X", with, errdefs.ErrInvalidArgument},
		{"where nobody is", "x:1", "127.0.0.1:1/x:1", with, errdefs.ErrUnavailable},
	} {
		if _, err := i.Push(t.Context(), c.ref, c.to, c.with, nil); !errors.Is(err, c.class) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
	var lines []string
	pushed, err := i.Push(t.Context(), "x:1", to, with, func(line string) { lines = append(lines, line) })
	if err != nil || pushed.Name != to || pushed.ID != idOf(t, img) {
		t.Fatalf("%+v: %v", pushed, err)
	}
	if len(lines) == 0 || lines[0] != "Pushing "+to {
		t.Errorf("progress: %q", lines)
	}
	// Another machine pulls what was pushed.
	other := newImages(t, Options{})
	secret := runtime.NewPullSecrets([]corev1.Secret{dockerConfigSecret(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, basic("alice", "secret")))})
	if got, err := other.Ensure(t.Context(), to, corev1.PullAlways, secret, nil); err != nil || got.ID != idOf(t, img) || got.Digest != pushed.Digest {
		t.Errorf("%+v: %v", got, err)
	}
	if _, err := i.Push(t.Context(), "x:1", to, with, nil); err != nil {
		t.Errorf("again: %v", err)
	}
}

// What a registry has in another of its repositories, from which it was pulled, is not sent to it.
func TestPushMounts(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	r := registry.Start(t, registry.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, r.Method+" "+r.URL.String())
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}})
	from, digest := r.Push(t, layered(t, "base", "top").Image, "from/x:1")
	i := newImages(t, Options{})
	if _, err := i.Pull(t.Context(), from, nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	asked = nil
	mu.Unlock()
	pushed, err := i.Push(t.Context(), from, r.Host+"/to/y:2", nil, nil)
	if err != nil || !strings.Contains(digest, pushed.Digest) {
		t.Fatalf("%+v (%s): %v", pushed, digest, err)
	}
	mu.Lock()
	defer mu.Unlock()
	mounts := 0
	for _, a := range asked {
		if strings.Contains(a, "mount=sha256") && strings.Contains(a, "from=from/x") {
			mounts++
		}
		if strings.HasPrefix(a, "PUT") && strings.Contains(a, "/blobs/") || strings.HasPrefix(a, "PATCH") {
			t.Errorf("a blob was sent: %s", a)
		}
	}
	if mounts != 3 {
		t.Errorf("%d parts were mounted, want 2 layers and a config: %q", mounts, asked)
	}
}

// A registry that takes nothing any more, or never ends, is given up.
func TestPushThatStalls(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	r := registry.Start(t, registry.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut || r.Method == http.MethodPatch {
				select {
				case <-stuck:
				case <-r.Context().Done():
				}
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	i := newImages(t, Options{StallTimeout: 200 * time.Millisecond, AnswerTimeout: 200 * time.Millisecond})
	for rule, content := range map[string]string{"a small one": "x", "a large one": strings.Repeat("x", 64<<20)} {
		if _, err := i.Import(t.Context(), layered(t, content).Docker(), "x:1"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := i.Push(ctx, "x:1", r.Host+"/x:1", nil, nil); !errdefs.IsUnavailable(err) {
			t.Errorf("%s: %v", rule, err)
		}
		cancel()
	}
}

// What a registry wants to have where nothing is sent, or refuses once it has asked for it, is given up: who sends it does not wait for
// somebody to take it.
func TestPushThatIsNotSent(t *testing.T) {
	for rule, answer := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"it leads to this machine": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			w.Header().Set("Location", "http://127.0.0.1:1/x")
			w.WriteHeader(http.StatusAccepted)
			return true
		},
		"its token ends, and it gives no other": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				_, _ = w.Write([]byte("{}"))
				return true
			}
			if r.Method != http.MethodPut {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x",scope="repository:x:pull,push"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
			return true
		},
	} {
		r := registry.Start(t, registry.Options{Wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !answer(w, r) {
					next.ServeHTTP(w, r)
				}
			})
		}})
		i := newImages(t, Options{})
		if _, err := i.Import(t.Context(), layered(t, "x").Docker(), "x:1"); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := i.Push(context.WithoutCancel(t.Context()), "x:1", r.Host+"/x:1", nil, nil)
			failed <- err
		}()
		select {
		case err := <-failed:
			if err == nil {
				t.Errorf("%s: it is pushed", rule)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: it is pushed for ever", rule)
		}
	}
}

func TestTag(t *testing.T) {
	r := registry.Start(t, registry.Options{User: "alice", Password: "secret"})
	i := newImages(t, Options{})
	private, _ := r.Push(t, small(t, "private").Image, "x:1")
	secret := runtime.NewPullSecrets([]corev1.Secret{dockerConfigSecret(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, basic("alice", "secret")))})
	img, err := i.Ensure(t.Context(), private, corev1.PullIfNotPresent, secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Tag(t.Context(), "none:1", "y:1"); !errdefs.IsNotFound(err) ||
		!strings.Contains(err.Error(), "there is no image docker.io/library/none:1 here") {
		t.Errorf("what is not here: %v", err)
	}
	if _, err := i.Tag(t.Context(), private, "y@"+img.Digest); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a digest: %v", err)
	}
	tagged, err := i.Tag(t.Context(), private, "y:1")
	if err != nil || tagged.Name != "docker.io/library/y:1" || tagged.ID != img.ID {
		t.Fatalf("%+v: %v", tagged, err)
	}
	// Another name lets in nobody whom the first one does not.
	if _, err := i.Ensure(t.Context(), "y:1", corev1.PullNever, nil, nil); err == nil {
		t.Error("a private image is everybody's by another name")
	}
	if got, err := i.Ensure(t.Context(), "y:1", corev1.PullNever, secret, nil); err != nil || got.ID != img.ID {
		t.Errorf("%+v: %v", got, err)
	}
	if _, err := i.Import(t.Context(), small(t, "other").Docker(), "z:1"); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Tag(t.Context(), "z:1", "y:1"); err != nil {
		t.Fatal(err)
	}
	if got, err := i.Ensure(t.Context(), "y:1", corev1.PullNever, nil, nil); err != nil || got.ID == img.ID {
		t.Errorf("a name that had another image: %+v, %v", got, err)
	}
}

func TestPrune(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	i := newImages(t, Options{})
	base := strings.Repeat("base", 100_000)
	used, _ := r.Push(t, layered(t, base, "used").Image, "used:1")
	idle, _ := r.Push(t, layered(t, base, strings.Repeat("idle", 50_000)).Image, "idle:1")
	for _, name := range []string{used, idle} {
		if _, err := i.Pull(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := i.Import(t.Context(), small(t, "imported").Docker(), "imported:1"); err != nil {
		t.Fatal(err)
	}
	usage, err := i.Usage(t.Context())
	if err != nil || len(usage) != 3 {
		t.Fatalf("%+v: %v", usage, err)
	}
	at := func(name string) runtime.ImageUsage {
		return usage[slices.IndexFunc(usage, func(u runtime.ImageUsage) bool { return slices.Contains(u.Names, name) })]
	}
	// The base is there as it came and unpacked, once for both.
	if u, d := at(used), at(idle); u.Shared != d.Shared || u.Shared < 400_000 || d.Size-d.Shared < 200_000 || u.Size-u.Shared > 100_000 {
		t.Errorf("%+v", usage)
	}
	if u := at("docker.io/library/imported:1"); u.Shared != 0 || u.Size == 0 {
		t.Errorf("%+v", u)
	}
	users := func(context.Context) (map[string]bool, error) { return map[string]bool{used: true}, nil }
	names := func(p runtime.Pruned) string {
		var all []string
		for _, i := range p.Images {
			all = append(all, i.Name)
		}
		return strings.Join(all, " ")
	}
	alone := at(idle).Size - at(idle).Shared
	for _, c := range []struct {
		rule        string
		all, dryRun bool
		removed     string
		freed       int64
		kept, left  int
	}{
		{"a dry run", false, true, idle, alone, 1, 3},
		{"a dry run of all", true, true, idle + " docker.io/library/imported:1", alone + at("docker.io/library/imported:1").Size, 0, 3},
		{"what was pulled", false, false, idle, alone, 1, 2},
		{"nothing more", false, false, "", 0, 1, 2},
		{"what was imported", true, false, "docker.io/library/imported:1", at("docker.io/library/imported:1").Size, 0, 1},
	} {
		p, err := i.Prune(t.Context(), users, c.all, c.dryRun)
		got := strings.Fields(names(p))
		slices.Sort(got)
		want := strings.Fields(c.removed)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) || p.Freed != c.freed || p.Kept != c.kept {
			t.Errorf("%s: %q, freed %d, kept %d (%v), want %q, %d, %d", c.rule, got, p.Freed, p.Kept, err, want, c.freed, c.kept)
		}
		if list, err := i.List(t.Context()); err != nil || len(list) != c.left {
			t.Errorf("%s: %d images are left, want %d: %v", c.rule, len(list), c.left, err)
		}
	}
}
