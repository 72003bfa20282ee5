package untrusted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	base := t.TempDir()
	tree := filepath.Join(base, "tree")
	at := func(path ...string) string { return filepath.Join(append([]string{tree}, path...)...) }
	write := func(path, content string) error { return os.WriteFile(path, []byte(content), 0o600) }
	if err := errors.Join(
		os.MkdirAll(at("etc"), 0o755), write(filepath.Join(base, "secret"), "secret"),
		write(at("plain"), "plain"), write(at("large"), strings.Repeat("x", 101)), write(at("fits"), strings.Repeat("x", 100)),
		os.Symlink("/plain", at("absolute")), os.Symlink("../plain", at("etc", "relative")),
		os.Symlink("../../../../secret", at("up")), os.Symlink(filepath.Join(base, "secret"), at("out")),
		os.Symlink("loop", at("loop")), os.Symlink("/proc/self/fd/0", at("magic")),
		unix.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("to-pipe")),
	); err != nil {
		t.Fatal(err)
	}
	device := "device"
	// No driver has this number: opening it fails in another way than refusing it.
	if err := unix.Mknod(at("device"), unix.S_IFCHR|0o600, int(unix.Mkdev(10, 999))); err != nil {
		t.Logf("without a device: %v", err)
		device = "pipe"
	}
	const other = "another error"
	for _, c := range []struct {
		path            string
		beneath, inRoot string // what is read, or which error it is
	}{
		{"plain", "plain", "plain"},
		{"/plain", other, "plain"},
		{"etc/relative", "plain", "plain"},
		{"absolute", other, "plain"},
		{"up", other, "none"},
		{"out", other, "none"},
		{"../secret", other, "none"},
		{"none", "none", "none"},
		{"plain/x", "none", "none"},
		{"pipe/x", "none", "none"},
		{"loop", other, other},
		{"etc", "no plain file", "no plain file"},
		{"pipe", "no plain file", "no plain file"},
		{"to-pipe", "no plain file", "no plain file"},
		{device, "no plain file", "no plain file"},
		{"large", "large", "large"},
		{"fits", strings.Repeat("x", 100), strings.Repeat("x", 100)},
	} {
		for scope, want := range map[Scope]string{Beneath: c.beneath, Root: c.inRoot} {
			begin := time.Now()
			content, err := Read(tree, c.path, scope, 100)
			got := string(content)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				got = "none"
			case errdefs.IsFailedPrecondition(err):
				got = "no plain file"
			case errdefs.IsOutOfRange(err):
				got = "large"
			case err != nil:
				got = other
			}
			if got != want {
				t.Errorf("%s (%x): %q, %v, want %q", c.path, scope, got, err, want)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("%s takes %v", c.path, took)
			}
		}
	}
}
