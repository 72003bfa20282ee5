package processes

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// word goes over the pipes between the daemon and a first process.
const word = "go\n"

// The descriptors of these pipes in a first process.
const (
	waitFD = 3
	tellFD = 4
)

// nobody is the user of a first process.
const nobody = 65534

// Init is the whole life of a pod's first process, which was started in new namespaces: once it is on record it
// detaches itself from the host, so that a container which may inspect it finds nothing there, and stays until it is
// killed. The kernel reaps processes whose parents have ended.
func Init(dir string) error {
	signal.Ignore()
	wait, tell := os.NewFile(waitFD, "wait"), os.NewFile(tellFD, "ready")
	told := make([]byte, len(word))
	if n, _ := wait.Read(told); string(told[:n]) != word {
		return fmt.Errorf("the daemon is gone")
	}
	if err := leave(dir); err != nil {
		return err
	}
	// They are the host's /dev/null, whose mode a container that may inspect this process could change.
	for fd := range waitFD {
		unix.Close(fd)
	}
	_, _ = tell.WriteString(word)
	wait.Close()
	tell.Close()
	for {
		_ = unix.Pause()
	}
}

// leave moves the process to an empty root and drops all its privileges.
func leave(dir string) error {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"keep mounts to itself", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount an empty root", func() error {
			return unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=0,mode=0555")
		}},
		{"enter it", func() error { return unix.Chdir(dir) }},
		{"make it the root", func() error { return unix.PivotRoot(".", ".") }},
		{"let go of the host's", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"take the root", func() error { return unix.Chdir("/") }},
		{"drop groups", func() error { return syscall.Setgroups(nil) }},
		{"drop the group", func() error { return syscall.Setresgid(nobody, nobody, nobody) }},
		{"drop the user", func() error { return syscall.Setresuid(nobody, nobody, nobody) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}
