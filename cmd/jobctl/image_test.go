package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/internal/engine"
)

// imagesOf runs a server that answers as the function says, in place of a daemon.
func imagesOf(t *testing.T, in string, answer http.HandlerFunc) (c *imageClient, out *bytes.Buffer) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	streams, stdin, out, _ := genericiooptions.NewTestIOStreams()
	stdin.WriteString(in)
	return &imageClient{IOStreams: streams, environment: engine.Own, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
		},
	}}}, out
}

func encode(w io.Writer, v any) { _ = json.NewEncoder(w).Encode(v) }

func TestImageImport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.tar")
	if err := os.WriteFile(file, []byte("from a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ rule, file, want string }{
		{"reads a file", file, "from a file"},
		{"reads the standard input", "-", "from a pipe"},
	} {
		var got, query string
		client, out := imagesOf(t, "from a pipe", func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			got, query = string(raw), r.Method+" "+r.URL.RawQuery
			encode(w, images.List{Items: []images.Image{{Name: "a:1", Size: 16_200_000}}})
		})
		if err := client.importArchive(t.Context(), c.file, "b:2"); err != nil {
			t.Fatal(err)
		}
		if got != c.want || query != "POST name=b%3A2&op=import" || out.String() != "imported a:1 (16.2MB)\n" {
			t.Errorf("%s: sent %q by %q, printed %q", c.rule, got, query, out)
		}
	}
}

func TestImagePull(t *testing.T) {
	for _, c := range []struct {
		rule      string
		events    []images.Event
		out, fail string
	}{
		{
			"prints the image",
			[]images.Event{{Progress: "Pulling"}, {Image: &images.Image{Name: "a:1", Size: 10, Digest: "sha256:1"}}},
			"pulled a:1 (10B, sha256:1)\n", "",
		},
		{"fails with the daemon's words", []images.Event{{Progress: "Pulling"}, {Error: &metav1.Status{Message: "no such tag"}}}, "", "no such tag"},
		{"fails when the daemon goes away", []images.Event{{Progress: "Pulling"}}, "", "broke off"},
	} {
		client, out := imagesOf(t, "", func(w http.ResponseWriter, _ *http.Request) {
			for _, e := range c.events {
				encode(w, e)
			}
		})
		err := client.pull(t.Context(), "a:1")
		if (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) || out.String() != c.out {
			t.Errorf("%s: printed %q, %v", c.rule, out, err)
		}
	}
}

func TestImageList(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	client, out := imagesOf(t, "", func(w http.ResponseWriter, _ *http.Request) {
		encode(w, images.List{Items: []images.Image{
			{Name: "docker.io/library/a:1", ID: "sha256:0123456789abcdef", Digest: "sha256:9", Size: 123_456_789, Created: now.Add(-48 * time.Hour)},
			{Name: "broken:1", Digest: "sha256:8"},
		}})
	})
	for _, c := range []struct {
		output  string
		headers bool
		want    string
	}{
		{"", true, "NAME                    ID             SIZE    CREATED\n" +
			"docker.io/library/a:1   0123456789ab   123MB   2d\n" +
			"broken:1                               0B      <unknown>\n"},
		{"wide", false, "docker.io/library/a:1   0123456789ab   123MB   2d          sha256:9\n" +
			"broken:1                               0B      <unknown>   sha256:8\n"},
	} {
		out.Reset()
		if err := client.list(t.Context(), c.output, c.headers, now); err != nil || out.String() != c.want {
			t.Errorf("-o %q: %v, got\n%swant\n%s", c.output, err, out, c.want)
		}
	}
	out.Reset()
	var list images.List
	if err := client.list(t.Context(), "json", true, now); err != nil || json.Unmarshal(out.Bytes(), &list) != nil || len(list.Items) != 2 {
		t.Errorf("-o json: %v, %s", err, out)
	}
	if err := client.list(t.Context(), "yml", true, now); err == nil {
		t.Error("an unknown format is no error")
	}
	// Users of the machine are told names and sizes.
	client, out = imagesOf(t, "", func(w http.ResponseWriter, _ *http.Request) {
		encode(w, images.List{Items: []images.Image{{Name: "a:1", Size: 123_456_789}}})
	})
	if err := client.list(t.Context(), "wide", true, now); err != nil || out.String() != "NAME   SIZE\na:1    123MB\n" {
		t.Errorf("%v, got\n%s", err, out)
	}
}

// What a server calls its images does nothing on a terminal.
func TestImagesOfAHostileServer(t *testing.T) {
	client, out := imagesOf(t, "", func(w http.ResponseWriter, r *http.Request) {
		image := images.Image{Name: odd, ID: "sha256:" + odd, Digest: odd}
		switch r.URL.Query().Get("op") {
		case "pull", "push":
			encode(w, images.Event{Image: &image})
		case "prune":
			encode(w, images.Pruned{Items: []images.Image{image}})
		default:
			encode(w, images.List{Items: []images.Image{image}})
		}
	})
	for name, do := range map[string]func() error{
		"list":   func() error { return client.list(t.Context(), "wide", true, time.Now()) },
		"import": func() error { return client.importArchive(t.Context(), "-", "") },
		"pull":   func() error { return client.pull(t.Context(), "a:1") },
		"push":   func() error { return client.push(t.Context(), "a:1", "b:1") },
		"prune":  func() error { return client.prune(t.Context(), false, false) },
	} {
		out.Reset()
		if err := do(); err != nil || !strings.Contains(out.String(), "a\uFFFDb") || strings.Contains(out.String(), odd) {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}

func TestImageRemoveGoesOnAfterAnError(t *testing.T) {
	client, out := imagesOf(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("ref") == "gone" {
			w.WriteHeader(http.StatusNotFound)
			encode(w, metav1.Status{Message: "image gone: not found"})
		}
	})
	err := client.remove(t.Context(), []string{"gone", "here"})
	if err == nil || err.Error() != "image gone: not found" || out.String() != "removed here\n" {
		t.Errorf("printed %q, %v", out, err)
	}
}

// The names by which pods find an image are those that the engine shows.
func TestNamesOfImagesOfAnEngine(t *testing.T) {
	id := strings.Repeat("a", 64)
	for _, c := range []struct{ rule, engine, image, tags, want string }{
		{"the short name", engine.Docker, "x", "x:latest", "docker.io/library/x:latest"},
		{"with a tag", engine.Docker, "x:1", "x:1 y:1", "docker.io/library/x:1"},
		{"the full name", engine.Docker, "docker.io/library/x:1", "x:1", "docker.io/library/x:1"},
		{"of a registry", engine.Docker, "r.io/x:1", "r.io/x:1", "r.io/x:1"},
		{"an ID", engine.Docker, id, "y:1 x:1", "docker.io/library/x:1 docker.io/library/y:1"},
		{"an abbreviated ID", engine.Docker, "aaaa", "x:1", "docker.io/library/x:1"},
		{"an ID without a name", engine.Docker, id, "", "error"},
		{"a digest", engine.Docker, "x@sha256:" + id, "x:1", "docker.io/library/x:1"},
		{"what podman has built", engine.Podman, "x:1", "localhost/x:1", "docker.io/library/x:1 localhost/x:1"},
		{"by its name there", engine.Podman, "localhost/x:1", "localhost/x:1", "localhost/x:1"},
		{"what podman has pulled", engine.Podman, "x:1", "docker.io/library/x:1", "docker.io/library/x:1"},
	} {
		names, err := namesOf(c.engine, c.image, strings.Fields(c.tags))
		got := strings.Join(names, " ")
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.rule, got, c.want)
		}
	}
}

// A push shows the registry the credentials of whoever runs jobctl.
func TestImagePush(t *testing.T) {
	dir := t.TempDir()
	auth := base64.StdEncoding.EncodeToString([]byte("alice:secret"))
	config := fmt.Appendf(nil, `{"auths": {"r.io": {"auth": %q}, "https://index.docker.io/v1/": {"auth": %[1]q}}}`, auth)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ to, with string }{
		{"r.io/x:1", `{"username":"alice","password":"secret"}`}, {"x:1", `{"username":"alice","password":"secret"}`}, {"other.io/x:1", ""},
	} {
		client, out := imagesOf(t, "", func(w http.ResponseWriter, r *http.Request) {
			with, _ := base64.URLEncoding.DecodeString(r.Header.Get(images.AuthHeader))
			if q := r.URL.Query(); q.Get("op") != "push" || q.Get("ref") != "a:1" || q.Get("to") != c.to || string(with) != c.with {
				t.Errorf("%s: %s with %q, want %q", c.to, r.URL.RawQuery, with, c.with)
			}
			encode(w, images.Event{Image: &images.Image{Name: c.to, Size: 10, Digest: "sha256:1"}})
		})
		client.environment = func() engine.Environment {
			return engine.Environment{Getenv: func(string) string { return "" }, Home: filepath.Join(dir, "none")}
		}
		if c.with != "" {
			client.environment = func() engine.Environment {
				return engine.Environment{Getenv: func(k string) string { return map[string]string{"DOCKER_CONFIG": dir}[k] }}
			}
		}
		if err := client.push(t.Context(), "a:1", c.to); err != nil || out.String() != "pushed "+c.to+" (10B, sha256:1)\n" {
			t.Errorf("%s: %v, %q", c.to, err, out)
		}
	}
}

func TestImagePrune(t *testing.T) {
	var query string
	client, out := imagesOf(t, "", func(w http.ResponseWriter, r *http.Request) {
		query = r.Method + " " + r.URL.RawQuery
		encode(w, images.Pruned{Items: []images.Image{{Name: "a:1", Size: 10}}, Freed: 5, Kept: 2})
	})
	if err := client.prune(t.Context(), true, true); err != nil {
		t.Fatal(err)
	}
	want := "would remove   a:1   10B\nwould free 5B\nkept 2 that nothing needs, but no registry could bring back (--all removes them too)\n"
	if query != "POST all=true&dryRun=true&op=prune" || out.String() != want {
		t.Errorf("%s:\n%s", query, out)
	}
}
