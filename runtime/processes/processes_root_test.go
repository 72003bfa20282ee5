package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/pins"
)

// TestMain lets this program stand in for jobd-shim.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "--init" {
		fmt.Fprintln(os.Stderr, Init(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func open(t *testing.T) *Processes {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Processes{Dir: t.TempDir(), Shim: self, Cgroup: "/", Pins: &pins.Pins{}}
	t.Cleanup(func() {
		if err := p.TearDown("u"); err != nil {
			t.Error(err)
		}
		if held, err := p.Held(); err != nil || len(held) > 0 {
			t.Errorf("held is %q, %v", held, err)
		}
	})
	return p
}

func setUp(t *testing.T, p *Processes) (first int) {
	t.Helper()
	path, err := p.SetUp("u", "")
	if err != nil {
		t.Fatal(err)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil || stat.Type != unix.NSFS_MAGIC {
		t.Fatalf("%s is no namespace: %v", path, err)
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, "u", recordName))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Sscan(string(text), &first)
	return first
}

func TestANamespaceIsFoundAgain(t *testing.T) {
	p := open(t)
	first := setUp(t, p)
	if again := setUp(t, &Processes{Dir: p.Dir, Shim: "/nonexistent", Pins: p.Pins}); again != first {
		t.Errorf("the first process is %d, and was %d", again, first)
	}
}

func TestANamespaceThatHasDiedIsReplaced(t *testing.T) {
	p := open(t)
	first := setUp(t, p)
	handle, err := unix.PidfdOpen(first, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 100_000)
	}
	if err != nil {
		t.Fatal(err)
	}
	if again := setUp(t, p); again == first {
		t.Errorf("the first process is still %d", first)
	}
}

func TestAFirstProcessHasNothingOfTheHost(t *testing.T) {
	p := open(t)
	first := setUp(t, p)
	for _, root := range []string{"root", "root/..", "cwd", "cwd/.."} {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", first, root))
		if err != nil || len(entries) > 0 {
			t.Errorf("%s has %v, %v", root, entries, err)
		}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", first))
	for _, want := range []string{"Uid:\t65534\t65534", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
}

func TestAFailedStartLeavesNothing(t *testing.T) {
	p := open(t)
	p.Shim = "/bin/false"
	if _, err := p.SetUp("u", ""); err == nil {
		t.Error("it worked")
	}
}

func TestAPinnedNamespaceIsThatOfTheContainerUntilTheEnd(t *testing.T) {
	p := open(t)
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.TrimSpace(string(cgroups[strings.LastIndex(strings.TrimSpace(string(cgroups)), "/")+1:]))
	if mine == "" {
		t.Skip("needs a cgroup with a name")
	}
	for range 2 { // it is found again
		path, err := p.Pin("u", mine, os.Getpid(), "ipc")
		if err != nil {
			t.Fatal(err)
		}
		var pinned, own unix.Stat_t
		if unix.Stat(path, &pinned) != nil || unix.Stat("/proc/self/ns/ipc", &own) != nil || pinned.Ino != own.Ino {
			t.Errorf("%s is another namespace", path)
		}
	}
	if _, err := p.Pin("u", "another", os.Getpid(), "ipc"); !errdefs.IsNotFound(err) {
		t.Errorf("the process of another: %v", err)
	}
	if _, err := p.Pin("u", mine, 1<<22-1, "ipc"); !errdefs.IsNotFound(err) {
		t.Errorf("a process that has ended: %v", err)
	}
}
