package listen

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocketHasItsModeFromTheStart(t *testing.T) {
	for mode, listen := range map[fs.FileMode]func(path string) (*Listener, error){
		0o660: func(path string) (*Listener, error) { return Unix(path, "jobd") }, 0o666: Users,
	} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode || l.ForUsers() != (mode == 0o666) {
			t.Errorf("%v, for all users: %t: %v", info.Mode(), l.ForUsers(), err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Error("the socket is left behind")
		}
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	for _, name := range []string{path, youngSocket(path)} { // of a process that had the same number
		old, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		old.SetUnlinkOnClose(false) // as a process that was killed
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkStale(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("clients find nothing where they are to find nobody: %v", err)
	}
	l, err := Unix(path, "jobd")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	_ = l.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestSocketOfAnotherProcessIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Unix(path, "jobd")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = Unix(path, "jobd")
	var used *SocketInUseError
	if !errors.As(err, &used) || int(used.Peer.PID) != os.Getpid() {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "listen.test") {
		t.Error(err)
	}
}

func TestFileInThePlaceOfTheSocketIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Unix(path, "jobd"); err == nil {
		t.Error("it was replaced")
	}
}

func TestPathOfASocketIsTooLong(t *testing.T) {
	_, err := Unix(filepath.Join(t.TempDir(), strings.Repeat("x", 100)), "jobd")
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}

func TestAddressesToListenOn(t *testing.T) {
	a, err := OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, err := TLS("127.0.0.1:0", a, false)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.com:0"} {
		var outside *NotLoopbackError
		if _, err := TLS(address, a, false); !errors.As(err, &outside) {
			t.Errorf("%s: %v", address, err)
		}
	}
	open, err := TLS("0.0.0.0:0", a, true)
	if err != nil {
		t.Fatal(err)
	}
	_ = open.Close()
	if _, err := TLS("nonsense", a, false); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
		t.Error(err)
	}
}
