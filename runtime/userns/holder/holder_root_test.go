package holder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain lets the test be the program that By starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Flag {
		if err := Main(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestProcessesInNewNamespaces(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	namespaceOf := func(pid any, kind string) string {
		link, err := os.Readlink(fmt.Sprintf("/proc/%v/ns/%s", pid, kind))
		if err != nil {
			t.Error(err)
		}
		return link
	}
	by := func(n Namespaces, fn func(int) error) error { return By(self, n, fn) }
	for name, make := range map[string]func(Namespaces, func(int) error) error{"of this process": Fork, "of a program": by} {
		t.Run(name, func(t *testing.T) {
			failure := errors.New("failure")
			held := 0
			err := make(Namespaces{First: 0x70000000, Size: 1 << 16, Others: unix.CLONE_NEWNET | unix.CLONE_NEWIPC}, func(pid int) error {
				held = pid
				for _, kind := range []string{"user", "net", "ipc"} {
					if namespaceOf(pid, kind) == namespaceOf("self", kind) {
						t.Errorf("it has no %s namespace of its own", kind)
					}
				}
				if namespaceOf(pid, "uts") != namespaceOf("self", "uts") {
					t.Error("it has a namespace that nobody has asked for")
				}
				for _, ids := range []string{"uid_map", "gid_map"} {
					content, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), ids))
					if got := strings.Join(strings.Fields(string(content)), " "); err != nil || got != "0 1879048192 65536" {
						t.Errorf("%s: %s, %v", ids, got, err)
					}
				}
				return failure
			})
			if !errors.Is(err, failure) {
				t.Errorf("got %v", err)
			}
			if err := unix.Kill(held, 0); held == 0 || err != unix.ESRCH {
				t.Errorf("process %d is left: %v", held, err)
			}
		})
	}
	t.Run("what the program says is part of the error", func(t *testing.T) {
		err := by(Namespaces{First: 0x70000000, Size: 0}, func(int) error { t.Error("called"); return nil })
		if err == nil || !strings.Contains(err.Error(), "make it: ") {
			t.Errorf("got %v", err)
		}
	})
}
