//go:build unix

package overssh

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Who makes the directory of another user's ssh before that user does, finds nothing there, and keeps it from nothing.
func TestPlacesThatOthersHaveTaken(t *testing.T) {
	a, err := Parse("ssh://user@host", "/run/jobd/jobd.sock")
	if err != nil {
		t.Fatal(err)
	}
	own := "jobctl-" + strconv.Itoa(os.Getuid())
	for name, take := range map[string]func(place string) error{
		"a directory that all may enter": func(place string) error { return errors.Join(os.Mkdir(place, 0o755), os.Chmod(place, 0o755)) },
		"a symlink to a directory of the user": func(place string) error {
			elsewhere := filepath.Join(filepath.Dir(place), "elsewhere")
			return errors.Join(os.Mkdir(elsewhere, 0o700), os.Symlink(elsewhere, place))
		},
		"a file": func(place string) error { return os.WriteFile(place, nil, 0o600) },
		"a directory of another user": func(place string) error {
			if os.Getuid() != 0 {
				return nil // it cannot be made, and counts as not there
			}
			return errors.Join(os.Mkdir(place, 0o700), os.Chown(place, 1234, 1234))
		},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := os.MkdirTemp("/tmp", "t") // a socket's path is short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(base) })
			runtime, tmp := filepath.Join(base, "r"), filepath.Join(base, "t")
			if err := errors.Join(os.Mkdir(runtime, 0o700), os.Mkdir(tmp, 0o700), take(filepath.Join(runtime, "jobctl"))); err != nil {
				t.Fatal(err)
			}
			t.Setenv("XDG_RUNTIME_DIR", runtime)
			t.Setenv("TMPDIR", tmp)
			dir, err := a.directory()
			want := filepath.Join(tmp, own)
			if _, err := os.Lstat(filepath.Join(runtime, "jobctl")); err != nil {
				want = filepath.Join(runtime, "jobctl")
			}
			if is, statErr := os.Lstat(dir); err != nil || statErr != nil || filepath.Dir(dir) != want || is.Mode().Perm() != 0o700 {
				t.Errorf("%s, %v, want one in %s", dir, err, want)
			}
		})
	}
}

// What is said of a place that others have taken names who that is.
func TestWhoHasTakenAPlace(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	home := filepath.Join(base, "h")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := private(home); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := private(home); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("its group may look into it: %v", err)
	}
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(home, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if err := private(home); err == nil || !strings.Contains(err.Error(), "user 1234") {
		t.Errorf("it belongs to another user: %v", err)
	}
}
