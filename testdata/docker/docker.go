// Package docker is a Docker for tests, as far as it answers what images it has.
package docker

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/jobd/jobd/testdata/images"
)

// Docker runs until its test ends.
type Docker struct {
	Socket string

	t        testing.TB
	mu       sync.Mutex
	tags     map[string]v1.Image // by their full names
	requests []string
	wrap     func(http.Handler) http.Handler
}

// Start runs a Docker without images.
func Start(t testing.TB) *Docker {
	t.Helper()
	// The path of a unix socket must be short, so it is not below the test's own directory.
	dir, err := os.MkdirTemp("", "docker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &Docker{Socket: filepath.Join(dir, "docker.sock"), t: t, tags: map[string]v1.Image{}}
	l, err := net.Listen("unix", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /images/", d.image)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.requests = append(d.requests, r.Method+" "+r.URL.Path)
		next := http.Handler(mux)
		if d.wrap != nil {
			next = d.wrap(mux)
		}
		d.mu.Unlock()
		next.ServeHTTP(w, r)
	})}
	go s.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { s.Close() })
	return d
}

// Wrap has a handler stand between its clients and it, to break things.
func (d *Docker) Wrap(wrap func(http.Handler) http.Handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wrap = wrap
}

// Tag gives an image a name, which another one may have had. Without an image the name goes.
func (d *Docker) Tag(name string, img v1.Image) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if img == nil {
		delete(d.tags, full(name))
		return
	}
	if named, ok := img.(images.Image); ok {
		img = named.Image
	}
	d.tags[full(name)] = img
}

// Requests returns what it was asked since the last time.
func (d *Docker) Requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.requests
	d.requests = nil
	return all
}

func full(name string) string {
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return name
	}
	return ref.String()
}

// find returns the image of a name or an ID.
func (d *Docker) find(name string) (v1.Image, []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.tags[full(name)]
	for _, img := range d.tags {
		if id, err := img.ConfigName(); err == nil && id.Hex == strings.TrimPrefix(name, "sha256:") {
			found = img
		}
	}
	if found == nil {
		return nil, nil
	}
	id, _ := found.ConfigName()
	var tags []string
	for tag, img := range d.tags {
		if other, err := img.ConfigName(); err == nil && other == id {
			ref, _ := reference.ParseNormalizedNamed(tag)
			tags = append(tags, reference.FamiliarString(ref))
		}
	}
	return found, tags
}

func (d *Docker) image(w http.ResponseWriter, r *http.Request) {
	name, what := r.URL.Path[len("/images/"):], ""
	if i := strings.LastIndex(name, "/"); i >= 0 {
		name, what = name[:i], name[i+1:]
	}
	img, tags := d.find(name)
	if img == nil {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"message": "No such image: %s"}`, name)
		return
	}
	if what == "get" {
		if err := images.WriteDocker(w, images.Image{Image: img}); err != nil {
			d.t.Log(err) // its client has gone
		}
		return
	}
	id, err := img.ConfigName()
	if err != nil {
		d.t.Error(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		d.t.Error(err)
	}
	size := int64(0)
	if layers, err := img.Layers(); err == nil {
		for _, l := range layers {
			n, _ := l.Size()
			size += n
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"Id": id.String(), "RepoTags": tags, "Os": config.OS, "Architecture": config.Architecture, "Size": size,
	})
}
