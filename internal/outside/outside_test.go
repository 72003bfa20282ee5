package outside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Going from name to name finds what the kernel finds at once, and is refused with the same errors.
func TestWalkAgreesWithTheKernel(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a/b/c", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a/file"), nil, 0o644), os.WriteFile(filepath.Join(dir, "d/file"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"up": "..", "a/to-d": "../d", "a/b/abs": "/d/file", "loop": "loop", "nothing": "none/at/all", "a/out": "../../..", "a/b/c/top": "../../../a",
		"chain": "a/b/c/top/to-d/../a/file", "file": "a/file",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(top)
	var deep strings.Builder
	for range 200 {
		deep.WriteString("a/../")
	}
	of := func(fd int, err error) string {
		if err != nil {
			return err.Error()
		}
		defer unix.Close(fd)
		at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return fmt.Sprint(at, err)
	}
	for _, path := range []string{
		".", "a", "a/b/c", "a/file", "a/file/x", "none", "none/x", "a/..", "..", "../x", "a/../../x", "up", "up/d", "a/to-d/file", "a/b/abs", "loop", "loop/x",
		"nothing", "a/out", "a/out/d", "a/b/c/top/b", "chain", "file", "file/", "./a/./b//c/", "/a/b", deep.String() + "a/file", strings.Repeat("x", 300),
	} {
		for _, resolve := range []uint64{unix.RESOLVE_BENEATH, unix.RESOLVE_IN_ROOT, unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS} {
			if path == "file/" || strings.HasPrefix(path, "/") && resolve&unix.RESOLVE_BENEATH != 0 {
				continue // callers clean them
			}
			how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
			want := of(unix.Openat2(top, path, how))
			w := &walk{top: top, resolve: resolve, at: -1}
			if got := of(w.to(path)); got != want {
				t.Errorf("%.40s with %#x: %s, want %s", path, resolve, got, want)
			}
			w.begin()
			if got := of(Open(top, path, resolve)); got != want {
				t.Errorf("open %.40s with %#x: %s, want %s", path, resolve, got, want)
			}
		}
	}
}

// Symlinks that lead back and forth are given up.
func TestAWalkEnds(t *testing.T) {
	dir := t.TempDir()
	err := os.Mkdir(filepath.Join(dir, "a"), 0o755)
	for i := range maxLinks {
		to := strings.Repeat("a/../", 800) + fmt.Sprint(i)
		err = errors.Join(err, os.Symlink(to, filepath.Join(dir, fmt.Sprint(i+1))))
	}
	if err != nil {
		t.Fatal(err)
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(top)
	w := &walk{top: top, resolve: unix.RESOLVE_BENEATH, at: -1}
	defer w.begin()
	if _, err := w.to(fmt.Sprint(maxLinks)); err != unix.ENAMETOOLONG {
		t.Errorf("%v", err)
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		kind, options string
		want          uint32
	}{
		{"fuse.sshfs", "rw,user_id=1000,group_id=1000,allow_other", 1000},
		{"fuse", "rw,user_id=1000", 1000},
		{"fuseblk", "rw,user_id=1000", 1000},
		{"fuse.gcsfuse", "rw,user_id=0,group_id=0,allow_other", 0},
		{"fusectl", "rw", 0},
		{"ext4", "rw,resuid=65534,user_id=5", 0},
	} {
		if got := answers(&mountinfo.Info{FSType: c.kind, VFSOptions: c.options}); got != c.want {
			t.Errorf("%s %s: %d", c.kind, c.options, got)
		}
	}
}
