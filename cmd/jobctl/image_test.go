package main

import (
	"bytes"
	"context"
	"encoding/json"
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
)

// imagesOf runs a server that answers as the function says, in place of a daemon.
func imagesOf(t *testing.T, in string, answer http.HandlerFunc) (c *imageClient, out *bytes.Buffer) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	streams, stdin, out, _ := genericiooptions.NewTestIOStreams()
	stdin.WriteString(in)
	return &imageClient{IOStreams: streams, http: &http.Client{Transport: &http.Transport{
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
