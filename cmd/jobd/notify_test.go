package main

import (
	"fmt"
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

func TestSystemdsWatchdog(t *testing.T) {
	for _, c := range []struct {
		period, pid string
		calls, told int // 0, 0: systemd does not ask
	}{
		{"", "", 0, 0}, {"0", "", 0, 0}, {"soon", "", 0, 0}, {"1000000", "1", 0, 0},
		{"600000000", "", 3, 1},
		{"600000000", fmt.Sprint(os.Getpid()), 3, 1},
	} {
		t.Setenv("WATCHDOG_USEC", c.period)
		t.Setenv("WATCHDOG_PID", c.pid)
		told := 0
		alive := systemdWatchdog(func(state string) error {
			if told++; state != "WATCHDOG=1" {
				t.Errorf("it is told %q", state)
			}
			return nil
		})
		if (alive != nil) != (c.calls > 0) {
			t.Errorf("%+v: asks: %v", c, alive != nil)
			continue
		}
		for range c.calls {
			alive()
		}
		if told != c.told {
			t.Errorf("%+v: told %d times", c, told)
		}
		for _, name := range []string{"WATCHDOG_USEC", "WATCHDOG_PID"} {
			if value, ok := os.LookupEnv(name); ok {
				t.Errorf("%s is still %q for the programs that are run", name, value)
			}
		}
	}
}
