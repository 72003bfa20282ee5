package untrusted

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/thread"
)

func TestUnlinked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	only := func(_ int, m *mountinfo.Info) string {
		var stat unix.Stat_t
		if unix.Stat(dir, &stat) != nil || unix.Mkdev(uint32(m.Major), uint32(m.Minor)) != stat.Dev {
			return ""
		}
		return "here"
	}
	measured := func() Used {
		found, err := Unlinked(t.Context(), []int{os.Getpid(), os.Getpid()}, only)
		if err != nil {
			t.Fatal(err)
		}
		return found["here"]
	}
	before := measured()
	const size = 1 << 20
	create := func(name string) *os.File {
		t.Helper()
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		return f
	}
	remove := func(f *os.File) {
		t.Helper()
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
	}
	grew := func(why string, inodes int64) {
		t.Helper()
		now := measured()
		if now.Inodes-before.Inodes != inodes || now.Bytes-before.Bytes < inodes*size || now.Bytes-before.Bytes > inodes*size*2 {
			t.Errorf("%s: %+v, before %+v", why, now, before)
		}
	}
	create("named")
	grew("a file that has its name", 0)
	open := create("open")
	again, err := unix.Dup(int(open.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	remove(open)
	grew("one that is open twice", 1)

	mapped := create("mapped")
	memory, err := unix.Mmap(int(mapped.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	remove(mapped)
	mapped.Close()
	grew("and one that is mapped", 2)

	nameless, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(nameless)
		if _, err := unix.Write(nameless, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		grew("and one that never had a name", 3)
		unix.Close(nameless)
	}
	if err := unix.Munmap(memory); err != nil {
		t.Fatal(err)
	}
	grew("after all but the first are gone", 1)
}

// A file that another pod has passed on is known by no mount that the process sees. What is in memory alone is no such file.
func TestUnlinkedOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	var passed *os.File
	if err := thread.Run(func() error {
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
		}
		if err == nil {
			passed, err = os.Create(filepath.Join(dir, "passed"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer passed.Close()
	const size = 1 << 20
	memory, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	if _, err := unix.Write(memory, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if _, err := passed.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	measured := func() Used {
		t.Helper()
		found, err := Unlinked(t.Context(), []int{os.Getpid()}, func(_ int, m *mountinfo.Info) string {
			if m == nil {
				return "of others"
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		return found["of others"]
	}
	if before := measured(); before != (Used{}) {
		t.Errorf("before it is removed: %+v", before)
	}
	if err := os.Remove(filepath.Join(dir, "passed")); err != nil {
		t.Fatal(err)
	}
	if now := measured(); now.Inodes != 1 || now.Bytes < size || now.Bytes > 2*size {
		t.Errorf("used are %+v", now)
	}
}
