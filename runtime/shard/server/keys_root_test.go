package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/thread"
)

// A user of the host makes a keyring that is called as a container of somebody else's before that starts, and lets everybody find it.
func TestKeysOfAContainerAreNobodyElses(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		const user = 65534
		// What a pod has begun shows what its next containers are called.
		id := fmt.Sprintf("keys-%d-%s", os.Getpid(), filepath.Base(b.runtime))
		for _, name := range []string{id, "_ses." + id} { // crun's, runc's
			made, over := make(chan error), make(chan struct{})
			thread.Start(func() {
				made <- takeKeyring(user, name)
				<-over // it is there as long as the thread
			})
			defer close(over)
			if err := <-made; err == unix.ENOSYS {
				t.Skip("a kernel without keys")
			} else if err != nil {
				t.Fatal(err)
			}
		}
		b.run(id, "cat", "/proc/keys") // those that it may see: all of its user, and its own, whoever has made them
		if end := b.exit(id); end.ExitCode != 0 {
			t.Fatalf("ended as %+v", end)
		}
		if log := strings.Join(b.log(id), "\n"); !strings.Contains(log, " _ses: ") || strings.Contains(log, id) {
			t.Errorf("it has the keys\n%s", log)
		}
	})
}

// takeKeyring makes the calling thread that of a user, with a session keyring that only has to be found by others.
func takeKeyring(uid int, name string) error {
	if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); err != 0 { // of this thread alone
		return err
	}
	ring, err := unix.KeyctlJoinSessionKeyring(name)
	if err != nil {
		return err
	}
	const possessorAll, othersSearch = 0x3f000000, 0x8
	return unix.KeyctlSetperm(ring, possessorAll|othersSearch)
}
