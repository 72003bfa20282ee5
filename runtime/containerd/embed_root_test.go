package containerd

import (
	"net"
	"os"
	"testing"
)

func TestSocketIsRootsOnly(t *testing.T) {
	r := newRig(t, "")
	info, err := os.Stat(r.config.State + "/containerd.sock")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	conn, err := net.Dial("unix", r.config.State+"/containerd.sock")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestCloseRightAfterOpen(t *testing.T) {
	r := newRig(t, "")
	for range 50 {
		r.Close()
		r.open(t)
	}
}
