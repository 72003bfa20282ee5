package untrusted

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
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
