package image

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/testdata/images"
)

// firstLayer returns the path of the layer of what a liar serves.
func firstLayer(t *testing.T, l *liar, img images.Image) (path string) {
	t.Helper()
	l.serve(t, img, func(m map[string]any, _ func(string, []byte)) {
		path = "/blobs/" + m["layers"].([]any)[0].(map[string]any)["digest"].(string)
	})
	return path
}

// What one registry sends, or does not, is nothing to the pulls from others, whatever digest it has.
func TestPartsOfOneDigest(t *testing.T) {
	i := newImages(t, Options{})
	l := newLiar(t)
	layer := firstLayer(t, l, small(t, "content"))
	begun, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hostile := wrapped(t, l, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, layer) {
			return false
		}
		select {
		case <-end:
			w.WriteHeader(http.StatusForbidden)
			return true
		default:
		}
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write([]byte("wrong"))
		_ = http.NewResponseController(w).Flush()
		once.Do(func() { close(begun) })
		<-end
		return true
	})
	done := make(chan error, 1)
	go func() {
		_, err := i.Ensure(context.Background(), hostile+"/x:1", corev1.PullIfNotPresent, nil, nil)
		done <- err
	}()
	t.Cleanup(func() { close(end); <-done })
	<-begun
	honest, give := context.WithTimeout(t.Context(), time.Minute)
	defer give()
	if _, err := i.Ensure(honest, l.name(), corev1.PullIfNotPresent, nil, nil); err != nil {
		t.Errorf("another registry: %v", err)
	}
}

// What was begun with wrong bytes is fetched anew at once.
func TestPartsBegunWithWrongBytes(t *testing.T) {
	i := newImages(t, Options{})
	l := newLiar(t)
	layer := firstLayer(t, l, small(t, "content"))
	var broken atomic.Bool
	broken.Store(true)
	host := wrapped(t, l, func(w http.ResponseWriter, r *http.Request) bool {
		if !broken.Load() || !strings.HasSuffix(r.URL.Path, layer) {
			return false
		}
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write([]byte("wrong"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if _, err := i.Ensure(t.Context(), host+"/x:1", corev1.PullIfNotPresent, nil, nil); err == nil {
		t.Fatal("it is pulled")
	}
	broken.Store(false)
	if _, err := i.Ensure(t.Context(), host+"/x:1", corev1.PullIfNotPresent, nil, nil); err != nil {
		t.Error(err)
	}
}

// An image that is said to be larger than the disk has room for is not fetched at all.
func TestImagesLargerThanTheDisk(t *testing.T) {
	for _, size := range []float64{2 << 30, 1 << 62} {
		i := newImages(t, Options{Space: func() (Size, Size, error) { return Size{Bytes: 1 << 30}, Size{}, nil }})
		l := newLiar(t)
		l.serve(t, small(t, "content"), func(m map[string]any, _ func(string, []byte)) {
			first := m["layers"].([]any)[0].(map[string]any)
			second := map[string]any{"mediaType": first["mediaType"], "digest": "sha256:" + strings.Repeat("a", 64), "size": size}
			m["layers"] = []any{first, second, second}
		})
		var asked atomic.Int64
		host := wrapped(t, l, func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/blobs/") {
				asked.Add(1)
			}
			return false
		})
		_, err := i.Ensure(t.Context(), host+"/x:1", corev1.PullIfNotPresent, nil, nil)
		if !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), "would fill the disk") || asked.Load() > 0 {
			t.Errorf("of %v bytes, asked for %d blobs: %v", size, asked.Load(), err)
		}
	}
}

// What is here is not said to be larger than it is.
func TestPartsOfOtherSizes(t *testing.T) {
	i := newImages(t, Options{})
	l := newLiar(t)
	l.serve(t, small(t, "content"), func(map[string]any, func(string, []byte)) {})
	if _, err := i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, size := range []float64{1, 1 << 62} {
		other := newLiar(t)
		other.serve(t, small(t, "content"), func(m map[string]any, _ func(string, []byte)) {
			m["layers"].([]any)[0].(map[string]any)["size"] = size
		})
		if _, err := i.Ensure(t.Context(), other.name(), corev1.PullIfNotPresent, nil, nil); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%v bytes: %v", size, err)
		}
	}
}

// An image of many layers is fetched by a few at a time.
func TestManyLayers(t *testing.T) {
	i := newImages(t, Options{})
	img := small(t, "content").Image
	for n := range 40 {
		more, err := mutate.AppendLayers(img, static.NewLayer(fmt.Appendf(nil, "%d", n), types.OCIUncompressedLayer))
		if err != nil {
			t.Fatal(err)
		}
		img = more
	}
	l := newLiar(t)
	l.serve(t, images.Image{Image: img}, func(map[string]any, func(string, []byte)) {})
	var now, most atomic.Int64
	host := wrapped(t, l, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			<-time.After(20 * time.Millisecond) // for others to come
			l.Config.Handler.ServeHTTP(w, r)
			return true
		}
		return false
	})
	_, err := i.Ensure(t.Context(), host+"/x:1", corev1.PullIfNotPresent, nil, nil)
	if most.Load() == 0 || most.Load() > maxFetches {
		t.Errorf("%d at a time: %v", most.Load(), err)
	}
}

// Pulls of one namespace that never end are nothing to another one.
func TestPullsOfANamespace(t *testing.T) {
	i := newImages(t, Options{AnswerTimeout: time.Hour})
	l := newLiar(t)
	l.serve(t, small(t, "content"), func(map[string]any, func(string, []byte)) {})
	begun, end := make(chan string, 100), make(chan struct{})
	host := wrapped(t, l, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/slow") {
			return false
		}
		select {
		case begun <- r.URL.Path:
		default:
		}
		<-end
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	var group sync.WaitGroup
	t.Cleanup(func() { close(end); group.Wait() })
	waits := make(chan struct{}, 1)
	ensure := func(namespace, name string, progress func(string)) error {
		_, err := i.Ensure(runtime.ForTenant(context.Background(), namespace), host+"/"+name, corev1.PullIfNotPresent, nil, progress)
		return err
	}
	for n := range maxPulls {
		group.Go(func() { _ = ensure("a", fmt.Sprintf("slow%d:1", n), nil) })
		<-begun
	}
	group.Go(func() {
		_ = ensure("a", "slow-too:1", func(line string) {
			if strings.HasPrefix(line, "Waiting for other pulls") {
				waits <- struct{}{}
			}
		})
	})
	<-waits
	if err := ensure("b", "x:1", nil); err != nil {
		t.Errorf("of another namespace: %v", err)
	}
	if err := ensure("a", "x:1", nil); err != nil {
		t.Errorf("of the namespace, of an image that is here: %v", err)
	}
}
