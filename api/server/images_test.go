package server

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/runtime"
)

// fakeImages has one image, a:1.
type fakeImages struct {
	fail     error
	imported int64
	name     string
	removed  string
}

func (f *fakeImages) Import(_ context.Context, r io.Reader, name string) ([]runtime.Image, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	f.name = name
	var err error
	f.imported, err = io.Copy(io.Discard, r)
	return []runtime.Image{{Name: "a:1", Size: f.imported}}, err
}

func (f *fakeImages) Pull(_ context.Context, ref string, progress func(string)) (runtime.Image, error) {
	progress("Pulling " + ref)
	return runtime.Image{Name: ref}, f.fail
}

func (f *fakeImages) List(context.Context) ([]runtime.Image, error) {
	return []runtime.Image{{Name: "a:1", ID: "sha256:1", Digest: "sha256:2", Size: 3}}, f.fail
}

func (f *fakeImages) Remove(_ context.Context, ref string) error {
	f.removed = ref
	return f.fail
}

func (f *fakeImages) Push(
	_ context.Context, ref, to string, with *runtime.Credentials, progress func(string),
) (runtime.Image, error) {
	progress("Pushing " + ref)
	if with != nil {
		progress("as " + with.Username + ":" + with.Password + with.IdentityToken)
	}
	return runtime.Image{Name: to}, f.fail
}

func (f *fakeImages) Tag(_ context.Context, ref, to string) (runtime.Image, error) {
	return runtime.Image{Name: to, Digest: "of " + ref}, f.fail
}

func (f *fakeImages) Prune(_ context.Context, all, dryRun bool) (runtime.Pruned, error) {
	return runtime.Pruned{Images: []runtime.Image{{Name: fmt.Sprint(all, dryRun)}}, Freed: 5, Kept: 2}, f.fail
}

func (f *fakeImages) Transfers() []runtime.Transfer {
	return []runtime.Transfer{{Name: "a:1", Bytes: 3, TotalBytes: 4, Layers: 1, TotalLayers: 2}}
}

func askImages(t *testing.T, f Images, method, query string, body io.Reader) (*http.Response, string) {
	t.Helper()
	s := httptest.NewServer(newImagesHandler(f))
	t.Cleanup(s.Close)
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+images.Path+query, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

func TestImagesAreListed(t *testing.T) {
	_, body := askImages(t, &fakeImages{}, "GET", "", nil)
	if want := `{"items":[{"name":"a:1","id":"sha256:1","digest":"sha256:2","size":3}]}` + "\n"; body != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

// Whoever is no administrator is told which images there are, and nothing else is done.
func TestNamesOfImagesAreListed(t *testing.T) {
	ask := func(i Images, query string) (int, string) {
		answer := httptest.NewRecorder()
		newImageNamesHandler(i).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, images.Path+query, nil))
		return answer.Code, answer.Body.String()
	}
	if code, body := ask(&fakeImages{}, ""); code != http.StatusOK || body != `{"items":[{"name":"a:1","size":3}]}`+"\n" {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask(&fakeImages{}, "?op=transfers"); code != http.StatusForbidden || !strings.Contains(body, "only their names and sizes are told here") {
		t.Errorf("transfers: %d %s", code, body)
	}
	if code, _ := ask(nil, ""); code != http.StatusNotImplemented {
		t.Errorf("without a runtime: %d", code)
	}
	if code, _ := ask(&fakeImages{fail: errdefs.ErrUnavailable}, ""); code != http.StatusServiceUnavailable {
		t.Errorf("a failure is %d", code)
	}
}

func TestTransfersAreListed(t *testing.T) {
	_, body := askImages(t, &fakeImages{}, "GET", "?op=transfers", nil)
	if want := `{"items":[{"name":"a:1","bytes":3,"totalBytes":4,"layers":1,"totalLayers":2}]}` + "\n"; body != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

func TestImageArchiveIsStreamedIn(t *testing.T) {
	f := &fakeImages{}
	_, body := askImages(t, f, "POST", "?op=import&name=b:2", io.LimitReader(endless{}, 32<<20))
	var list images.List
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 1 || list.Items[0].Size != 32<<20 || f.name != "b:2" {
		t.Errorf("got %s, %v; name %q", body, err, f.name)
	}
}

// A refusal must reach a client that is still sending.
func TestImageArchiveIsRefusedEarly(t *testing.T) {
	f := &fakeImages{fail: fmt.Errorf("no archive: %w", errdefs.ErrInvalidArgument)}
	resp, body := askImages(t, f, "POST", "?op=import", io.LimitReader(endless{}, 256<<20))
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "no archive") {
		t.Errorf("got %s: %s", resp.Status, body)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestImagePullTellsItsProgress(t *testing.T) {
	for _, c := range []struct {
		rule  string
		fail  error
		image string
		code  int32
	}{
		{"the last line is the image", nil, "a:1", 0},
		{"the last line is the error", fmt.Errorf("no such tag: %w", errdefs.ErrNotFound), "", http.StatusNotFound},
	} {
		_, body := askImages(t, &fakeImages{fail: c.fail}, "POST", "?op=pull&ref=a:1", nil)
		var events []images.Event
		for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
			var e images.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		if len(events) != 2 || events[0].Progress != "Pulling a:1" {
			t.Fatalf("%s: got %s", c.rule, body)
		}
		last := events[1]
		if (last.Image != nil && last.Image.Name != c.image) || (last.Error != nil && last.Error.Code != c.code) || (last.Error != nil) != (c.fail != nil) {
			t.Errorf("%s: got %s", c.rule, body)
		}
	}
}

func TestImageIsRemoved(t *testing.T) {
	f := &fakeImages{}
	resp, _ := askImages(t, f, "DELETE", "?ref=localhost:5000/a@sha256:1", nil)
	if resp.StatusCode != http.StatusNoContent || f.removed != "localhost:5000/a@sha256:1" {
		t.Errorf("got %s, removed %q", resp.Status, f.removed)
	}
}

func TestImageErrorsAreStatuses(t *testing.T) {
	for _, c := range []struct {
		rule          string
		images        Images
		method, query string
		code          int
		reason        metav1.StatusReason
	}{
		{"without a runtime", nil, "GET", "", 501, metav1.StatusReasonMethodNotAllowed},
		{"an unknown operation", &fakeImages{}, "POST", "?op=paint", 400, metav1.StatusReasonBadRequest},
		{"an unknown question", &fakeImages{}, "GET", "?op=paint", 400, metav1.StatusReasonBadRequest},
		{"a removal of nothing", &fakeImages{}, "DELETE", "", 400, metav1.StatusReasonBadRequest},
		{"an image that is not there", &fakeImages{fail: errdefs.ErrNotFound}, "DELETE", "?ref=b", 404, metav1.StatusReasonNotFound},
		{"an image in use", &fakeImages{fail: errdefs.ErrFailedPrecondition}, "DELETE", "?ref=a", 409, metav1.StatusReasonConflict},
		{"a full disk", &fakeImages{fail: errdefs.ErrResourceExhausted}, "POST", "?op=import", 507, ""},
		{"a registry that does not let us in", &fakeImages{fail: errdefs.ErrUnauthenticated}, "GET", "", 502, ""},
		{"anything else", &fakeImages{fail: errors.New("boom")}, "GET", "", 500, metav1.StatusReasonInternalError},
	} {
		t.Run(c.rule, func(t *testing.T) {
			resp, body := askImages(t, c.images, c.method, c.query, nil)
			var s metav1.Status
			if err := json.Unmarshal([]byte(body), &s); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.code || int(s.Code) != c.code || s.Reason != c.reason || s.Kind != "Status" || s.Message == "" {
				t.Errorf("got %s: %s", resp.Status, body)
			}
		})
	}
}

func TestImagesArePushedTaggedAndPruned(t *testing.T) {
	for _, c := range []struct{ rule, query, auth, want string }{
		{"a push", "?op=push&ref=a:1&to=b:1", "", `"Pushing a:1"`},
		{"has the name of its end", "?op=push&ref=a:1&to=b:1", "", `"name":"b:1"`},
		{"with credentials", "?op=push&ref=a:1&to=b:1", `{"username":"u","password":"p"}`, `"as u:p"`},
		{"with a token", "?op=push&ref=a:1&to=b:1", `{"identitytoken":"t"}`, `"as :t"`},
		{"with something else", "?op=push&ref=a:1&to=b:1", `x`, `no credentials as JSON`},
		{"without an end", "?op=push&ref=a:1", "", `want GET`},
		{"a tag", "?op=tag&ref=a:1&to=b:1", "", `"name":"b:1"`},
		{"prune", "?op=prune", "", `"name":"false false"`},
		{"prune all", "?op=prune&all=true&dryRun=true", "", `"freed":5`},
	} {
		r := httptest.NewRequest(http.MethodPost, images.Path+c.query, nil)
		if c.auth != "" {
			r.Header.Set(images.AuthHeader, base64.URLEncoding.EncodeToString([]byte(c.auth)))
		}
		w := httptest.NewRecorder()
		newImagesHandler(&fakeImages{}).ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %s", c.rule, w.Body)
		}
	}
}
