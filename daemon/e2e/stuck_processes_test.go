package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStuckProcesses is a user whose commands wait for a file system that a process of theirs serves and never answers for: no signal ends
// them. They stay what they are, and nobody else waits for them, nor does jobd when it is stopped and started.
func TestStuckProcesses(t *testing.T) { hostTeam(t, stuckProcesses) }

func stuckProcesses(t *testing.T, x *team) {
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { server.Close() })
	at := filepath.Join(x.alice.home, "served")
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", server.Fd(), x.alice.uid, x.alice.gid)
	if err := errors.Join(os.Mkdir(at, 0o755), unix.Mount("served", at, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options)); err != nil {
		t.Skip(err)
	}
	letGo := func() { _ = unix.Unmount(at, unix.MNT_FORCE|unix.MNT_DETACH) } // which ends what waits, too
	t.Cleanup(letGo)
	taken := make(chan uint32, 100)
	go readFUSE(int(server.Fd()), taken)

	for i := range 3 {
		x.alice.jobctl("submit", "--host", "--detach", "--name", fmt.Sprint("stuck-", i), "--", "stat", "served/"+fmt.Sprint(i))
	}
	select {
	case <-taken: // a request that has been read is waited for whatever comes
	case <-time.After(time.Minute):
		t.Fatal("nothing is asked of the file system")
	}
	for i := range 3 {
		x.alice.runningPod(fmt.Sprint("stuck-", i))
	}
	x.alice.jobctl("delete", "jobs", "--all", "--now")
	x.bob.sh("echo while they are deleted")
	stopping := time.Now()
	x.terminate()
	if took := time.Since(stopping); took > 20*time.Second {
		t.Errorf("it takes %v to stop", took)
	}
	x.serve()
	x.bob.sh("echo after the next start")
	if out := x.alice.jobctl("get", "pods"); strings.Count(out, "stuck-") == 0 {
		t.Errorf("the process that was asked for is gone: %s", out)
	}
	letGo()
	x.eventually("the pods are gone", func() error {
		if out := x.alice.jobctl("get", "pods"); strings.Contains(out, "stuck-") {
			return errors.New(out)
		}
		return nil
	})
}

// readFUSE serves a file system: it answers the kernel's greeting, and takes all requests after it without a word, until its end.
func readFUSE(fd int, taken chan<- uint32) {
	const initialize, headerSize, answerSize = 26, 40, 16 + 64
	request := make([]byte, 1<<17)
	for {
		n, err := unix.Read(fd, request)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n < headerSize:
			return
		}
		op := binary.NativeEndian.Uint32(request[4:])
		if op != initialize {
			select {
			case taken <- op:
			default:
			}
			continue
		}
		answer := make([]byte, answerSize)
		binary.NativeEndian.PutUint32(answer, answerSize)
		copy(answer[8:16], request[8:16])              // which request it is
		binary.NativeEndian.PutUint32(answer[16:], 7)  // the version of the protocol
		binary.NativeEndian.PutUint32(answer[20:], 31) // and its part
		if _, err := unix.Write(fd, answer); err != nil {
			return
		}
	}
}
