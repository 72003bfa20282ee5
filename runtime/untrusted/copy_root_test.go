package untrusted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// described lists a tree: what each file is, whose, and what is in it.
func described(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := Visit(dir, func(in int, name string, is *unix.Stat_t) error {
		at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", in))
		if err != nil {
			t.Fatal(err)
		}
		at = filepath.Join(at, name)
		line := fmt.Sprintf("%s %o %d:%d", strings.TrimPrefix(at, dir), is.Mode, is.Uid, is.Gid)
		switch is.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			content, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			line += fmt.Sprintf(" %d %q %d", is.Nlink, content, is.Mtim.Sec)
		case unix.S_IFLNK:
			target, err := os.Readlink(at)
			if err != nil {
				t.Fatal(err)
			}
			line += " -> " + target
		}
		value := make([]byte, 100)
		if n, err := unix.Lgetxattr(at, "trusted.test", value); err == nil {
			line += fmt.Sprintf(" %q", value[:n])
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestCopyKeepsAllButLeavesNothing(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	base := t.TempDir()
	from, to, secret := filepath.Join(base, "from"), filepath.Join(base, "to"), filepath.Join(base, "secret")
	at := func(name string) string { return filepath.Join(from, name) }
	if err := errors.Join(
		os.MkdirAll(at("a/b"), 0o755), os.MkdirAll(secret, 0o755), os.WriteFile(filepath.Join(secret, "s"), []byte("secret"), 0o600),
		os.WriteFile(at("a/plain"), []byte("plain"), 0o644), os.WriteFile(at("a/b/setuid"), []byte("#!"), 0o755),
		os.Link(at("a/plain"), at("a/b/second")), os.WriteFile(at("large"), make([]byte, copyAtOnce+1), 0o600),
		os.Symlink(secret, at("out")), os.Symlink("../../secret/s", at("a/up")), os.Symlink("/proc/self/fd/0", at("magic")),
		unix.Mkfifo(at("pipe"), 0o640), os.Chown(at("a/b/setuid"), 999, 998), unix.Chmod(at("a/b/setuid"), 0o6755),
		os.Lchown(at("out"), 5, 6), os.Chown(from, 70, 71), unix.Chmod(from, 0o1770), unix.Chmod(at("a"), 0o2700), os.Mkdir(to, 0o755),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "a/plain"} {
		if err := unix.Lsetxattr(at(name), "trusted.test", []byte("x"+name), 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			t.Fatal(err)
		}
	}
	want := described(t, from)
	top, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	if err := Copy(t.Context(), top, to); err != nil {
		t.Fatal(err)
	}
	if got := described(t, to); got != want {
		t.Errorf("copied\n%s\nfrom\n%s", got, want)
	}
	if strings.Contains(described(t, to), `"secret"`) {
		t.Error("a symlink was followed")
	}

	called, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(Remove(t.Context(), to), os.Mkdir(to, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := Copy(called, top, to); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
}

func TestCopyOfADeepTreeEnds(t *testing.T) {
	base := t.TempDir()
	from, to := filepath.Join(base, "from"), filepath.Join(base, "to")
	deepTree(t, from, 2100)
	t.Cleanup(func() { _ = errors.Join(Remove(context.Background(), from), Remove(context.Background(), to)) })
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	top, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	if err := Copy(t.Context(), top, to); err == nil || !strings.Contains(err.Error(), "longer than") || len(err.Error()) > 500 {
		t.Errorf("a tree with paths that the kernel does not take: %.500v", err)
	}
}
