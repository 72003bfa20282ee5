package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/jobd/jobd/testdata/docker"
	"github.com/jobd/jobd/testdata/images"
)

func small(t *testing.T, names ...string) images.Image {
	t.Helper()
	tree := images.NewTree()
	tree.Text("/content", 0o644, strings.Join(names, " "))
	img, err := images.New(tree, v1.Config{}, names...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestFindAndSave(t *testing.T) {
	d := docker.Start(t)
	img := small(t)
	d.Tag("x:1", img)
	d.Tag("localhost/built:2", img)
	id, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule, engine, name string
		class              error
	}{
		{"a short name", Docker, "x:1", nil},
		{"a full name", Docker, "docker.io/library/x:1", nil},
		{"an ID", Docker, id.Hex, nil},
		{"an ID as docker writes it", Docker, "sha256:" + id.Hex, nil},
		{"another tag", Docker, "x:2", errdefs.ErrNotFound},
		{"what podman has built is on localhost there", Podman, "docker.io/library/built:2", nil},
		{"and not in docker", Docker, "docker.io/library/built:2", errdefs.ErrNotFound},
		{"of another registry it is not what has been built", Podman, "quay.io/built:2", errdefs.ErrNotFound},
		{"a path", Docker, "../containers", errdefs.ErrInvalidArgument},
		{"upper case", Docker, "X:1", errdefs.ErrInvalidArgument},
	} {
		found, err := Engine{Name: c.engine, Socket: d.Socket}.Find(t.Context(), c.name)
		if c.class != nil {
			if !errors.Is(err, c.class) {
				t.Errorf("%s: %v", c.rule, err)
			}
			continue
		}
		slices.Sort(found.Tags)
		if err != nil || found.ID != id.Hex || found.Platform.OS != "linux" || found.Size == 0 || strings.Join(found.Tags, " ") != "localhost/built:2 x:1" {
			t.Errorf("%s: %+v: %v", c.rule, found, err)
		}
	}
	r, err := Engine{Name: Docker, Socket: d.Socket}.Save(t.Context(), id.Hex)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if raw, err := io.ReadAll(r); err != nil || !strings.Contains(string(raw), "manifest.json") {
		t.Errorf("%d bytes: %v", len(raw), err)
	}
}

// What an engine answers, whoever it is, is bounded and told in one sentence.
func TestAnswersOfEngines(t *testing.T) {
	d := docker.Start(t)
	for _, c := range []struct {
		rule   string
		answer func(w http.ResponseWriter, r *http.Request)
		want   string
	}{
		{"an error", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message": "broken\nby something"}`, http.StatusInternalServerError)
		}, "docker does not give image x: broken"},
		{"an error without words", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502 Bad Gateway"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "docker's answer about image x"},
		{"an endless answer", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"Id": "`))
			for block := make([]byte, 64<<10); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "docker's answer about image x"},
		{"an ID that leads elsewhere", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"Id": "../containers/x"}`)) }, "which is none"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/images/y/json", http.StatusFound) }, "302 Found"},
	} {
		d.Wrap(func(http.Handler) http.Handler { return http.HandlerFunc(c.answer) })
		_, err := Engine{Name: Docker, Socket: d.Socket}.Find(t.Context(), "x")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || !errdefs.IsUnavailable(err) {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
	gone := Engine{Name: Docker, Socket: d.Socket + "x"}
	if _, err := gone.Find(t.Context(), "x"); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "no docker listens at "+d.Socket+"x") {
		t.Errorf("without a socket: %v", err)
	}
}

// program writes a program that answers as docker and podman do.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrograms(t *testing.T) {
	id := strings.Repeat("a", 64)
	e := Engine{Name: Docker, Program: program(t, `case "$*" in
"image inspect x:1") echo '[{"Id": "sha256:`+id+`", "RepoTags": ["x:1"], "Os": "linux"}]' ;;
"save `+id+`") echo archive ;;
"image inspect y") echo "Error: No such image: y" >&2; exit 1 ;;
"save `+strings.Repeat("b", 64)+`") echo part; echo "the disk is full" >&2; exit 1 ;;
*) echo "cannot connect" >&2; exit 1 ;;
esac`)}
	if img, err := e.Find(t.Context(), "x:1"); err != nil || img.ID != id {
		t.Errorf("%+v: %v", img, err)
	}
	for name, want := range map[string]string{"y": "docker has no image y", "z": "docker does not give image z: cannot connect"} {
		if _, err := e.Find(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for id, want := range map[string]struct{ text, fail string }{
		id: {"archive\n", ""}, strings.Repeat("b", 64): {"part\n", "the disk is full"},
	} {
		r, err := e.Save(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		r.Close()
		if string(raw) != want.text || (err == nil) != (want.fail == "") || err != nil && !strings.Contains(err.Error(), want.fail) {
			t.Errorf("%s: %q, %v", id, raw, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Engine{Name: Docker, Program: program(t, "exec sleep 1000")}.Save(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(r); err == nil {
		t.Error("a program that was cancelled ends well")
	}
	r.Close()
}

// Whose Docker it is, is found as docker(1) finds it.
func TestMine(t *testing.T) {
	home := t.TempDir()
	listen := func(path string) string {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return path
	}
	dir, err := os.MkdirTemp("", "mine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	named := listen(filepath.Join(dir, "named.sock"))
	listen(filepath.Join(dir, "docker.sock"))
	podman := listen(filepath.Join(dir, "podman", "podman.sock"))
	context := filepath.Join(home, ".docker", "contexts", "meta", "fe9c6bd7a66301f49ca9b6a70b217107cd1284598bfc254700c989b916da791e")
	if err := os.MkdirAll(context, 0o755); err != nil {
		t.Fatal(err)
	}
	meta := `{"Name": "desktop-linux", "Endpoints": {"docker": {"Host": "unix://` + named + `"}}}`
	if err := os.WriteFile(filepath.Join(context, "meta.json"), []byte(meta), 0o644); err != nil {
		t.Fatal(err)
	}
	none := func(string) (string, error) { return "", exec.ErrNotFound }
	all := func(name string) (string, error) { return "/bin/" + name, nil }
	for _, c := range []struct {
		rule, engine  string
		env           map[string]string
		look          func(string) (string, error)
		socket, fails string
		program       string
	}{
		{"DOCKER_HOST", Docker, map[string]string{"DOCKER_HOST": "unix://" + named}, none, named, "", ""},
		{"a context", Docker, map[string]string{"DOCKER_CONTEXT": "desktop-linux"}, none, named, "", ""},
		{"another machine", Docker, map[string]string{"DOCKER_HOST": "ssh://lab"}, all, "", "", "/bin/docker"},
		{"another machine without the program", Docker, map[string]string{"DOCKER_HOST": "ssh://lab"}, none, "",
			"docker is at ssh://lab, for which its program is needed", ""},
		{"nothing at DOCKER_HOST", Docker, map[string]string{"DOCKER_HOST": "unix:///nowhere"}, none, "",
			"nothing listens at /nowhere, and there is no program docker", ""},
		{"a user's podman", Podman, map[string]string{"XDG_RUNTIME_DIR": dir}, none, podman, "", ""},
		{"CONTAINER_HOST", Podman, map[string]string{"CONTAINER_HOST": "unix://" + named, "XDG_RUNTIME_DIR": dir}, none, named, "", ""},
		{"podman without a service", Podman, map[string]string{"XDG_RUNTIME_DIR": "/nowhere"}, all, "", "", "/bin/podman"},
	} {
		in := Environment{Getenv: func(k string) string { return c.env[k] }, Home: home, UID: 1000, LookPath: c.look}
		e, err := Mine(c.engine, in)
		if e.Socket != c.socket || e.Program != c.program || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %+v, %v", c.rule, e, err)
		}
	}
}
