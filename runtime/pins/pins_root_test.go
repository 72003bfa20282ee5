package pins

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/thread"
)

func open(t *testing.T, state layout.State) *Pins {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	p, err := Open(state, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if p.onHost {
		t.Skip("the kernel refuses it here")
	}
	return p
}

// freshState returns a state directory, with a directory for a pod.
func freshState(t *testing.T) (state layout.State, pod string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // as the kernel names mounts
	if err != nil {
		t.Fatal(err)
	}
	state = layout.State(dir)
	pod = filepath.Join(state.Network(), "pod")
	if err := os.MkdirAll(pod, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = (&Pins{mounts: state.PinMounts()}).unmountAll() })
	return state, pod
}

func (p *Pins) mustHide(t *testing.T, path string, want bool) {
	t.Helper()
	if got, err := p.Hides(path); err != nil || got != want {
		t.Errorf("hides %s: %v, %v; want %v", path, got, err, want)
	}
}

// newNamespace returns an IPC namespace in which nobody is.
func newNamespace(t *testing.T) *os.File {
	t.Helper()
	var file *os.File
	if err := thread.Run(func() error {
		err := unix.Unshare(unix.CLONE_NEWIPC)
		if err == nil {
			file, err = os.Open("/proc/thread-self/ns/ipc")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func mountsOnHost(t *testing.T, state layout.State) (found []string) {
	t.Helper()
	all, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], string(state)) {
			found = append(found, fields[4])
		}
	}
	return found
}

func (p *Pins) mustFind(t *testing.T, path string, want *os.File) {
	t.Helper()
	reached, err := p.Reach(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{path, reached} {
		found, err := p.Find(at)
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		is, _ := found.Stat()
		wanted, _ := want.Stat()
		if !os.SameFile(is, wanted) {
			t.Errorf("%s leads to another namespace", at)
		}
	}
}

func TestPinsAreFoundAgainAndAreNoMountsOfTheHost(t *testing.T) {
	state, pod := freshState(t)
	p := open(t, state)
	path := filepath.Join(pod, "ipc")
	if _, err := p.Find(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	namespace := newNamespace(t)
	if err := p.Pin(path, namespace); err != nil {
		t.Fatal(err)
	}
	p.mustFind(t, path, namespace)
	if got := mountsOnHost(t, state); len(got) != 2 {
		t.Errorf("on the host: %v", got)
	}
	p.mustHide(t, path, true)
	p.mustHide(t, "/proc/self/ns/ipc", false)

	// A pin stays where its directory goes, and survives its maker.
	moved := filepath.Join(state.Network(), "moved")
	if err := os.Rename(pod, moved); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(moved, "ipc")
	p.mustFind(t, path, namespace)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = open(t, state)
	p.mustFind(t, path, namespace)

	for range 2 {
		if err := Unpin(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Find(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mountsOnHost(t, state); len(got) != 0 {
		t.Errorf("nothing is pinned, and on the host is %v", got)
	}
	// It does not say that nothing is pinned: somebody would make it again.
	if err := p.Pin(path, namespace); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := p.Find(path); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestPinsOnTheHost(t *testing.T) {
	state, pod := freshState(t)
	open(t, state).Close()
	old, err := Open(state, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	path, namespace := filepath.Join(pod, "ipc"), newNamespace(t)
	if err := old.Pin(path, namespace); err != nil {
		t.Fatal(err)
	}
	old.mustFind(t, path, namespace)
	old.mustHide(t, path, false)
	// The next one finds it too, and pins others elsewhere.
	p := open(t, state)
	p.mustFind(t, path, namespace)
	other := filepath.Join(pod, "net")
	if err := p.Pin(other, namespace); err != nil {
		t.Fatal(err)
	}
	p.mustHide(t, path, false)
	p.mustHide(t, other, true)
	// One that is for old shards again finds both.
	if old, err = Open(state, true, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	old.mustFind(t, path, namespace)
	old.mustFind(t, other, namespace)
	for _, path := range []string{path, other} {
		if err := Unpin(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mountsOnHost(t, state); len(got) != 0 {
		t.Errorf("on the host is %v", got)
	}
}

func TestWhatAKillHasLeftIsPutRight(t *testing.T) {
	state, pod := freshState(t)
	dir := filepath.Dir(state.PinMounts())
	for name, leave := range map[string]func() error{
		"a directory":          func() error { return os.MkdirAll(dir, 0o700) },
		"its mount":            func() error { return unix.Mount(dir, dir, "", unix.MS_BIND, "") },
		"two mounts":           func() error { return unix.Mount(dir, dir, "", unix.MS_BIND, "") },
		"a file":               func() error { return os.WriteFile(state.PinMounts(), nil, 0o400) },
		"a file without mount": func() error { return (&Pins{mounts: state.PinMounts()}).unmountAll() },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := leave(); err != nil {
				t.Fatal(err)
			}
			p := open(t, state)
			path, namespace := filepath.Join(pod, "ipc"), newNamespace(t)
			if err := p.Pin(path, namespace); err != nil {
				t.Fatal(err)
			}
			p.mustFind(t, path, namespace)
			if err := Unpin(path); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if got := mountsOnHost(t, state); len(got) != 0 {
				t.Errorf("on the host is %v", got)
			}
		})
	}
}
