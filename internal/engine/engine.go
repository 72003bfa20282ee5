// Package engine asks the Docker or the podman of this machine for an image. Both answer the same requests on a unix socket; where none
// listens, their own program is asked.
//
// The name of an image comes in, what it is and its archive go out. It changes nothing there.
//
// Errors carry a class of containerd's errdefs: NotFound, if there is no such image; Unavailable, if nothing answers; PermissionDenied.
package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Their names.
const (
	Docker = "docker"
	Podman = "podman"
)

const (
	// answerTimeout bounds what is asked about an image, which takes some milliseconds.
	answerTimeout = 30 * time.Second
	// maxAnswer bounds what is said about one.
	maxAnswer = 4 << 20
)

// Engine is a Docker or a podman.
type Engine struct {
	Name   string // Docker or Podman
	Socket string // where it listens
	// Program is asked where there is no socket.
	Program string
}

// Image is one that an engine has.
type Image struct {
	// ID is what the engine calls it by, for as long as it has it: of another image of the same name it is another one.
	ID string
	// Tags are its names, as the engine shows them.
	Tags     []string
	Platform imagespec.Platform
	Size     int64 // in bytes, about that of its archive
}

// Find returns what the engine has under a name, which may be any that it understands.
func (e Engine) Find(ctx context.Context, name string) (Image, error) {
	if _, err := reference.ParseAnyReference(name); err != nil {
		return Image{}, fail(errdefs.ErrInvalidArgument, "image name %q: %w", name, err)
	}
	img, err := e.inspect(ctx, name)
	if local, ok := e.local(name); ok && errdefs.IsNotFound(err) {
		if img, again := e.inspect(ctx, local); again == nil {
			return img, nil
		}
	}
	return img, err
}

// local returns what podman calls an image that was built here under a name without a registry, for which Docker Hub's stands.
func (e Engine) local(name string) (string, bool) {
	rest, hub := strings.CutPrefix(name, "docker.io/")
	return "localhost/" + strings.TrimPrefix(rest, "library/"), hub && e.Name == Podman
}

// inspected is what both say of an image.
type inspected struct {
	ID           string `json:"Id"`
	RepoTags     []string
	Os           string
	Architecture string
	Variant      string
	Size         int64
}

func (i inspected) image() Image {
	return Image{
		ID: strings.TrimPrefix(i.ID, "sha256:"), Tags: i.RepoTags, Size: i.Size,
		Platform: imagespec.Platform{OS: i.Os, Architecture: i.Architecture, Variant: i.Variant},
	}
}

func (e Engine) inspect(ctx context.Context, name string) (Image, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if e.Socket == "" {
		return e.inspectByProgram(ctx, name)
	}
	answer, err := e.get(ctx, "/images/"+name+"/json")
	if err != nil {
		return Image{}, e.about(name, err)
	}
	defer answer.Close()
	var i inspected
	if err := json.NewDecoder(io.LimitReader(answer, maxAnswer)).Decode(&i); err != nil {
		return Image{}, fail(errdefs.ErrUnavailable, "%s's answer about image %s: %w", e.Name, name, err)
	}
	return e.checked(name, i)
}

// checked refuses what an answer about an image cannot be.
func (e Engine) checked(name string, i inspected) (Image, error) {
	if img := i.image(); isID(img.ID) {
		return img, nil
	}
	return Image{}, fail(errdefs.ErrUnavailable, "%s says that image %s has the ID %.80q, which is none", e.Name, name, i.ID)
}

func isID(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// Save returns the archive of an image, by its ID, so that it is that one whatever its names mean by then. It has no names. The context
// bounds its reading as well.
func (e Engine) Save(ctx context.Context, id string) (io.ReadCloser, error) {
	if e.Socket == "" {
		return e.saveByProgram(ctx, id)
	}
	r, err := e.get(ctx, "/images/"+id+"/get")
	if err != nil {
		return nil, e.about(id, err)
	}
	return r, nil
}

// get asks on the socket.
func (e Engine) get(ctx context.Context, path string) (io.ReadCloser, error) {
	client := http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{Timeout: answerTimeout}).DialContext(ctx, "unix", e.Socket)
			},
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, (&url.URL{Scheme: "http", Host: e.Name, Path: path}).String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	var said struct{ Message, Cause string }
	raw, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	_ = json.Unmarshal(raw, &said) // some that is between says it in other ways
	return nil, &refusal{answer.StatusCode, cmp.Or(said.Message, said.Cause, answer.Status)}
}

// refusal is an answer that is an error.
type refusal struct {
	code int
	said string
}

func (r *refusal) Error() string { return r.said }

// about says what an error means, in one sentence.
func (e Engine) about(image string, err error) error {
	r, refused := errors.AsType[*refusal](err)
	switch {
	case refused && r.code == http.StatusNotFound:
		return fail(errdefs.ErrNotFound, "%s has no image %s", e.Name, image)
	case refused:
		return fail(errdefs.ErrUnavailable, "%s does not give image %s: %s", e.Name, image, oneLine(r.said))
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fail(errdefs.ErrPermissionDenied, "%s at %s lets only others in (who is root, or in the group of that socket)", e.Name, e.Socket)
	case absent(err):
		return fail(errdefs.ErrUnavailable, "no %s listens at %s", e.Name, e.Socket)
	}
	return fail(errdefs.ErrUnavailable, "%s at %s does not answer: %w", e.Name, e.Socket, err)
}

// absent reports whether an error of connecting says that nobody listens.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// oneLine returns the first line of what somebody else says, as far as a sentence has room for it.
func oneLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s[:min(len(s), 500)]
}

// fail makes an error of a class, which its message does not repeat.
func fail(class error, format string, args ...any) error {
	return &failure{fmt.Errorf(format, args...), class}
}

type failure struct {
	error
	class error
}

func (f *failure) Unwrap() []error { return []error{f.error, f.class} }
