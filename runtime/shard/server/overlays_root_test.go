package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// The overlay of a container that has ended is the next one's only if nobody could tell.
func TestOverlayIsUsedAgainWhileItIsAsNew(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	for name, c := range map[string]struct {
		do   func(root string) error
		kept bool
	}{
		"nothing":                  {func(string) error { return nil }, true},
		"read":                     {func(root string) error { _, err := os.ReadFile(root + "/file"); return err }, true},
		"written and removed":      {func(root string) error { _ = os.Mkdir(root+"/new", 0o755); return os.Remove(root + "/new") }, true},
		"written":                  {func(root string) error { return os.WriteFile(root+"/new", nil, 0o600) }, false},
		"changed":                  {func(root string) error { return os.WriteFile(root+"/file", []byte("changed"), 0) }, false},
		"removed":                  {func(root string) error { return os.Remove(root + "/file") }, false},
		"renamed":                  {func(root string) error { return os.Rename(root+"/file", root+"/other") }, false},
		"removed with a directory": {func(root string) error { return os.RemoveAll(root + "/dir") }, false},
		"file of another mode":     {func(root string) error { return os.Chmod(root+"/dir/below", 0o700) }, false},
		"root of another mode":     {func(root string) error { return os.Chmod(root, 0o700) }, false},
		"root of another owner":    {func(root string) error { return os.Lchown(root, 5, 6) }, false},
		"root with an attribute":   {func(root string) error { return unix.Setxattr(root, "trusted.test", nil, 0) }, false},
		"mounted read-only": {func(root string) error {
			return unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			lower, upper, work, root := filepath.Join(dir, "lower"), filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "root")
			for _, d := range []string{filepath.Join(lower, "dir/below"), upper, work, root} {
				must(t, os.MkdirAll(d, 0o755))
			}
			must(t, os.WriteFile(filepath.Join(lower, "file"), []byte("content"), 0o644))
			mounts := []protocol.Mount{{Type: "overlay", Options: []string{"lowerdir=" + lower, "upperdir=" + upper, "workdir=" + work}}}
			l, err := newLauncher("", 0)
			must(t, err)
			l.overlays.sweep = time.NewTimer(time.Hour) // none is closed, however long this takes
			inside := func(do func(string) error) *overlay {
				t.Helper()
				var v *overlay
				failed := make(chan error)
				l.work <- func(th *launchThread) {
					err := l.enter(th, launch{rootfs: root})
					if err == nil {
						v, err = l.overlays.mount(mounts, root, nil)
					}
					if err == nil {
						err = do(root)
					}
					th.away = unix.Setns(l.host, unix.CLONE_NEWNS) != nil
					failed <- err
				}
				must(t, <-failed)
				if v == nil {
					t.Skip("needs copies of mounts: Linux 5.2")
				}
				return v
			}
			first := inside(c.do)
			l.overlays.giveBack(first)
			if kept := len(l.overlays.idle) == 1; kept != c.kept {
				t.Fatalf("kept: %t, want %t", kept, c.kept)
			}
			if !c.kept {
				return
			}
			// It is mounted again and again, even when what the kernel has put there is removed, and works.
			names := make([]byte, 1024)
			n, err := unix.Listxattr(upper, names)
			must(t, err)
			for name := range strings.SplitSeq(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
				if name != "" {
					must(t, unix.Removexattr(upper, name))
				}
			}
			l.overlays.giveBack(inside(c.do))
			if len(l.overlays.idle) != 1 {
				t.Fatal("it is kept only once")
			}
			last := inside(func(root string) error {
				if _, err := os.ReadFile(root + "/file"); err != nil {
					return err
				}
				return os.WriteFile(root+"/new", nil, 0o600)
			})
			if last != first {
				t.Error("it was mounted anew")
			}
			l.overlays.giveBack(last)
			if len(l.overlays.idle) != 0 {
				t.Error("it is kept with something written")
			}
		})
	}
}

// A directory of the same name is another layer.
func TestOverlayIsNotUsedForAnotherLayer(t *testing.T) {
	b := newBed(t, "crun")
	quiet := b.request("quiet", b.spec("quiet", "true"))
	writer := b.request("writer", b.spec("writer", "sh", "-c", "echo content > /file; cat /file"))
	writer.Rootfs = quiet.Rootfs
	for _, request := range []protocol.Start{quiet, writer} {
		_, err := b.Start(b.context(), request)
		must(t, err)
		b.exit(request.ID)
		_, err = b.Delete(b.context(), request.ID)
		must(t, err)
		// By now the layer is kept: it goes, and another one takes its place.
		must(t, os.RemoveAll(filepath.Join(b.dir, "quiet")))
		for _, d := range []string{"upper", "work"} {
			must(t, os.MkdirAll(filepath.Join(b.dir, "quiet", d), 0o755))
		}
	}
	if got := b.log("writer"); len(got) != 1 || got[0] != "stdout F content" {
		t.Errorf("log is %q", got)
	}
}
