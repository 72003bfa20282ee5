package listen

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/jobd/jobd/internal/files"
)

// A kubeconfig that is as it has to be needs no room on the disk, which others may have filled while jobd restarts.
func TestKubeconfigThatIsThere(t *testing.T) {
	a, err := OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, at := filepath.Join(t.TempDir(), "kubeconfig"), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443}
	if err := a.WriteKubeconfig(path, at); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+files.Unfinished, 0o700); err != nil { // so nothing can be written
		t.Fatal(err)
	}
	if err := a.WriteKubeconfig(path, at); err != nil {
		t.Error(err)
	}
	if is, err := os.Stat(path); err != nil || is.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", is.Mode(), err)
	}
	at.Port++
	if err := a.WriteKubeconfig(path, at); err == nil {
		t.Error("the old address is kept")
	}
}
