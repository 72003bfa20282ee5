package files_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	// The sizes are around those at which the buffer grows; a shorter content replaces a longer one as a whole.
	for _, size := range []int{0, 1, 511, 512, 513, 100_000, 1024, 3, 0} {
		want := bytes.Repeat([]byte("x"), size)
		if err := files.Write(path, want, 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := files.Read(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes, %d were read, error %v", size, len(got), err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("got %v, %v", info, err)
	}
}

// The files of the kernel have no size, and some are read in pieces.
func TestReadFilesOfTheKernel(t *testing.T) {
	for _, path := range []string{"/proc/self/cgroup", "/proc/self/mountinfo", "/proc/filesystems"} {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Skip(err)
		}
		if got, err := files.Read(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing", "a")
	there := filepath.Join(dir, "there")
	if err := files.CreateThen(there, []byte("first"), 0o600, func(int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	own := errors.New("an error of the caller")
	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"read a file that is missing":       {func() error { _, err := files.Read(missing); return err }, fs.ErrNotExist},
		"read a directory":                  {func() error { _, err := files.Read(dir); return err }, unix.EISDIR},
		"write where there is no directory": {func() error { return files.Write(missing, nil, 0o600) }, fs.ErrNotExist},
		"create a file that is there": {func() error {
			return files.CreateThen(there, []byte("another"), 0o600, func(int) error { return nil })
		}, fs.ErrExist},
		"write to a full disk": {func() error { return files.Write("/dev/full", []byte("x"), 0o600) }, unix.ENOSPC},
		"what is done with the file fails": {func() error {
			return files.WriteThen(filepath.Join(dir, "a"), nil, 0o600, func(int) error { return own })
		}, own},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do()
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if path := (*fs.PathError)(nil); err != own && (!errors.As(err, &path) || !strings.HasPrefix(path.Path, "/")) {
				t.Errorf("the error does not name the file: %v", err)
			}
		})
	}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, e := range entries {
			if at, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(at, dir) {
				t.Errorf("%s is still open", at)
			}
		}
	}
}
