package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestSystemdIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	tell := systemd()
	if value, ok := os.LookupEnv("NOTIFY_SOCKET"); ok {
		t.Errorf("NOTIFY_SOCKET is still %q for the programs that are run", value)
	}
	if err := tell("READY=1"); err != nil {
		t.Fatal(err)
	}
	heard := make([]byte, 100)
	if n, err := socket.Read(heard); err != nil || string(heard[:n]) != "READY=1" {
		t.Errorf("systemd hears %q, %v", heard[:n], err)
	}
	if err := systemd()("READY=1"); err != nil {
		t.Errorf("without systemd: %v", err)
	}
}
