package image

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/testdata/registry"
)

func ensure(t *testing.T, i *Images, ref string, policy corev1.PullPolicy) runtime.Image {
	t.Helper()
	img, err := i.Ensure(t.Context(), ref, policy, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestPull(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	tagged, digest := r.Push(t, small(t, "one"), "a/b:1")
	repository := strings.TrimSuffix(tagged, ":1")
	for _, c := range []struct{ rule, ref, name string }{
		{"by tag", tagged, tagged},
		{"by digest", repository + "@" + digest, repository + "@" + digest},
		{"by tag and digest the digest counts", tagged + "@" + digest, repository + "@" + digest},
	} {
		t.Run(c.rule, func(t *testing.T) {
			i := newImages(t, Options{})
			var lines []string
			img, err := i.Ensure(t.Context(), c.ref, corev1.PullIfNotPresent, nil, func(l string) { lines = append(lines, l) })
			if err != nil {
				t.Fatal(err)
			}
			if img.Name != c.name || img.Digest != digest || img.ChainID == "" || img.Size == 0 || img.Config.Env[0] != "A=b" || img.Created.IsZero() {
				t.Errorf("pulled %+v", img)
			}
			if len(lines) == 0 {
				t.Error("a pull says nothing of its progress")
			}
		})
	}
}

// TestAFailedPullSaysThatTheImageIsHere: an image that was imported is not used with imagePullPolicy Always, which is the
// default for :latest, and importing it once more would not help.
func TestAFailedPullSaysThatTheImageIsHere(t *testing.T) {
	i := newImages(t, Options{})
	const imported, absent = "127.0.0.1:1/imported:latest", "127.0.0.1:1/absent:latest"
	if _, err := i.Import(t.Context(), small(t, "here", imported).Docker(), ""); err != nil {
		t.Fatal(err)
	}
	given := access{"hash/uid"}
	for _, c := range []struct {
		rule, ref string
		policy    corev1.PullPolicy
		access    access
		says      bool
	}{
		{"imported", imported, corev1.PullAlways, nil, true},
		{"imported, by its short name", "127.0.0.1:1/imported", corev1.PullAlways, nil, true},
		{"not here", absent, corev1.PullAlways, nil, false},
		{"not here, and not asked for", absent, corev1.PullIfNotPresent, nil, false},
		{"here for others only", imported, corev1.PullAlways, given, false},
		{"here for others only, IfNotPresent", imported, corev1.PullIfNotPresent, given, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			i.mu.Lock()
			i.access[imported] = c.access
			i.mu.Unlock()
			_, err := i.Ensure(t.Context(), c.ref, c.policy, nil, nil)
			if !errdefs.IsUnavailable(err) {
				t.Fatalf("the error is no longer about the registry: %v", err)
			}
			if says := strings.Contains(err.Error(), runtime.ImagePresent); says != c.says {
				t.Errorf("says that it is here: %t, want %t: %v", says, c.says, err)
			}
		})
	}
}

func TestPullPolicy(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	name, first := r.Push(t, small(t, "first"), "policy:1")
	i := newImages(t, Options{})

	if _, err := i.Ensure(t.Context(), name, corev1.PullNever, nil, nil); !errdefs.IsNotFound(err) {
		t.Errorf("Never, not here: %v", err)
	} else if want := fmt.Sprintf("Container image %q is not present with pull policy of Never", name); err.Error() != want {
		t.Errorf("Never says %q, want %q", err, want)
	}
	if img := ensure(t, i, name, corev1.PullIfNotPresent); img.Digest != first {
		t.Errorf("IfNotPresent, not here: %s, want %s", img.Digest, first)
	}
	_, second := r.Push(t, small(t, "second"), "policy:1")
	r.Requests()
	for _, policy := range []corev1.PullPolicy{corev1.PullNever, corev1.PullIfNotPresent, ""} {
		said := false
		img, err := i.Ensure(t.Context(), name, policy, nil, func(string) { said = true })
		if err != nil || img.Digest != first || said {
			t.Errorf("%s, here: %s, %v, progress %t; want the image that is here", policy, img.Digest, err, said)
		}
	}
	if asked := r.Requests(); len(asked) > 0 {
		t.Errorf("the registry was asked for what is here: %s", asked)
	}
	if img := ensure(t, i, name, corev1.PullAlways); img.Digest != second {
		t.Errorf("Always: %s, want the new %s", img.Digest, second)
	}
	r.Requests()
	if img := ensure(t, i, name, corev1.PullAlways); img.Digest != second {
		t.Errorf("Always again: %s, want %s", img.Digest, second)
	}
	if asked := r.Requests(); registry.Count(asked, "HEAD", "/manifests/1") != 1 || registry.Count(asked, "GET", "") != 0 {
		t.Errorf("Always, unchanged: asked %s, want the digest only", asked)
	}
	if img := ensure(t, i, name, corev1.PullIfNotPresent); img.Digest != second {
		t.Errorf("IfNotPresent after Always: %s, want %s", img.Digest, second)
	}

	const away = "127.0.0.1:1/away:1"
	if _, err := i.Import(t.Context(), small(t, "here", away).Docker(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Ensure(t.Context(), away, corev1.PullAlways, nil, nil); !errdefs.IsUnavailable(err) {
		t.Errorf("Always, of a registry that is down: %v, though the image is here", err)
	}
	ensure(t, i, away, corev1.PullIfNotPresent)
}

func TestPullOfCompressedLayersAndIndexes(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	i := newImages(t, Options{})
	plain := small(t, "index")
	layers, _ := plain.Layers()
	zipped, err := tarball.LayerFromOpener(layers[0].Uncompressed)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, zipped)
	if err != nil {
		t.Fatal(err)
	}
	for rule, c := range map[string]struct {
		platforms []string
		refused   bool
	}{
		"the image for this platform is taken from an index":     {[]string{"s390x", "amd64", "arm64"}, false},
		"an index without an image for this platform is refused": {[]string{"s390x"}, true},
	} {
		var adds []mutate.IndexAddendum
		for _, arch := range c.platforms {
			adds = append(adds, mutate.IndexAddendum{Add: forPlatform(t, img, arch),
				Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
		}
		name, digest := r.PushIndex(t, mutate.AppendManifests(empty.Index, adds...), fmt.Sprintf("index%d:1", len(adds)))
		got, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, nil, nil)
		if c.refused {
			if !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "the image is for linux/s390x, this machine is linux/") {
				t.Errorf("%s: got %v", rule, err)
			}
			continue
		}
		if err != nil || got.Digest != digest {
			t.Errorf("%s: %+v, %v", rule, got, err)
		}
	}
}

func forPlatform(t *testing.T, img v1.Image, arch string) v1.Image {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

// soon is when to give a registry up that does not answer. One that is to answer gets all the time that it wants.
const soon = 300 * time.Millisecond

func TestParallelPullsAreOne(t *testing.T) {
	gate := make(chan struct{})
	b := &breaking{layer: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		<-gate
		next.ServeHTTP(w, req)
	}}
	r := registry.Start(t, registry.Options{Wrap: b.wrap})
	name, _ := r.Push(t, small(t, "parallel"), "parallel:1")
	r.Requests()
	b.on.Store(true)
	i := newImages(t, Options{})

	impatient, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := i.Ensure(impatient, name, corev1.PullIfNotPresent, nil, func(string) {
			select {
			case <-started:
			default:
				close(started)
			}
		})
		gaveUp <- err
	}()
	<-started
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	for waiters := 0; waiters < 11; time.Sleep(time.Millisecond) {
		i.flights.mu.Lock()
		if l := i.flights.running["pull "+name]; l != nil {
			waiters = len(l.waiting)
		}
		i.flights.mu.Unlock()
	}
	giveUp()
	if err := <-gaveUp; err != context.Canceled {
		t.Errorf("who gives up gets %v", err)
	}
	close(gate)
	wg.Wait()
	requests := r.Requests()
	if n := registry.Count(requests, "GET", "/manifests/"); n != 1 {
		t.Errorf("the manifest was fetched %d times: %s", n, requests)
	}
	if n := registry.Count(requests, "GET", "/blobs/"); n != 2 {
		t.Errorf("config and layer were fetched in %d requests: %s", n, requests)
	}
}

func TestPullEndsWhenNobodyWaits(t *testing.T) {
	ended := make(chan struct{})
	var once sync.Once
	asked := make(chan struct{})
	b := &breaking{layer: func(_ http.ResponseWriter, req *http.Request, _ http.Handler) {
		once.Do(func() {
			close(asked)
			<-req.Context().Done()
			close(ended)
		})
	}}
	r := registry.Start(t, registry.Options{Wrap: b.wrap})
	name, _ := r.Push(t, small(t, "nobody"), "nobody:1")
	b.on.Store(true)
	i := newImages(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := i.Ensure(ctx, name, corev1.PullIfNotPresent, nil, nil); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the request to the registry goes on")
	}
	b.on.Store(false)
	ensure(t, i, name, corev1.PullIfNotPresent)
}

func TestRemove(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	name, _ := r.Push(t, small(t, "remove"), "remove:1")
	i := newImages(t, Options{})
	if err := i.Remove(t.Context(), name); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), name) {
		t.Errorf("an image that is not here: %v", err)
	}
	ensure(t, i, name, corev1.PullIfNotPresent)
	useByContainer(t, i, "c1", name)
	if err := i.Remove(t.Context(), name); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "c1") {
		t.Errorf("an image that a container uses: %v", err)
	}
	releaseByContainer(t, i, "c1")
	if err := i.Remove(t.Context(), name); err != nil {
		t.Error(err)
	}
	if _, err := i.Ensure(t.Context(), name, corev1.PullNever, nil, nil); !errdefs.IsNotFound(err) {
		t.Errorf("after its removal: %v", err)
	}
	if list, err := i.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("listed after its removal: %v, %v", names(list), err)
	}
	if left := leftovers(t, i); len(left) > 0 {
		t.Errorf("left after the removal: %s", left)
	}
	ensure(t, i, name, corev1.PullIfNotPresent)
}
