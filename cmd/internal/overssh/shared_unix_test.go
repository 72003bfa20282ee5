//go:build unix

package overssh

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
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

// A machine that speaks without an end takes no memory here.
func TestAMachineThatSpeaksWithoutAnEnd(t *testing.T) {
	const much = 32 << 20
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		config := &ssh.ServerConfig{NoClientAuth: true}
		config.AddHostKey(signer)
		there, err := l.Accept()
		if err != nil {
			return
		}
		_, channels, requests, err := ssh.NewServerConn(there, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for asked := range channels {
			c, requests, err := asked.Accept()
			if err != nil {
				return
			}
			for r := range requests {
				_ = r.Reply(true, nil)
				for range much >> 10 {
					_, _ = c.Write(bytes.Repeat([]byte("x"), 1<<10))
				}
				_, _ = c.SendRequest("exit-status", false, []byte{0, 0, 0, isMissing})
				_ = c.Close()
			}
		}
	}()
	client, err := ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	code, user := New(Address{Socket: "/s"}, io.Discard).look(t.Context(), client)
	if code != isMissing || len(user) > maxWords {
		t.Errorf("code %d, and %d bytes are held", code, len(user))
	}
}
