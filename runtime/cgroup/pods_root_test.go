package cgroup

import (
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// A restart of the daemon sets up pods that run, which may use more memory than their limit is about to be.
func TestTheLimitsOfAPodThatRunsAreLeftAlone(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	p, err := OpenPods("/jobd-test-" + strings.ToLower(rand.Text()[:8]))
	must(t, err)
	t.Cleanup(func() { must(t, p.hierarchies.RemoveAll(p.parent)) })
	limit := func(bytes int64) int64 {
		t.Helper()
		group, err := p.SetUp("uid", &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &bytes}})
		if err != nil {
			t.Skipf("no control groups can be made here: %v", err)
		}
		return p.hierarchies.bounds(group).memoryLimit
	}
	if got := limit(64 << 20); got != 64<<20 {
		t.Errorf("limit %d", got)
	}
	if got := limit(32 << 20); got != 32<<20 {
		t.Errorf("limit %d of a pod in which nothing runs", got)
	}
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	must(t, Enter(p.group("uid")+"/container", cmd.Process.Pid))
	if got := limit(16 << 20); got != 32<<20 {
		t.Errorf("limit %d of a pod that runs", got)
	}
}

// A process of a pod has given a file in memory to somebody else, who has it when the pod has ended.
func TestWhatAPodHasLeftInMemory(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	p, err := OpenPods("/jobd-test-" + strings.ToLower(rand.Text()[:8]))
	must(t, err)
	t.Cleanup(func() { must(t, p.hierarchies.RemoveAll(p.parent)) })
	if _, err := p.SetUp("uid", &specs.LinuxResources{}); err != nil {
		t.Skipf("no control groups can be made here: %v", err)
	}
	fd, err := unix.MemfdCreate("given", unix.MFD_CLOEXEC)
	must(t, err)
	given := os.NewFile(uintptr(fd), "given")
	defer given.Close()
	cmd := exec.Command("sh", "-c", "read -r line; head -c 8388608 /dev/zero >&3; echo done; read -r line")
	cmd.ExtraFiles = []*os.File{given}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, Enter(p.group("uid")+"/container", cmd.Process.Pid))
	_, err = in.Write([]byte("begin\n"))
	must(t, err)
	_, err = io.ReadFull(out, make([]byte, len("done\n")))
	must(t, err)
	if left := p.Left("uid"); left != 0 {
		t.Errorf("of a pod that runs %d are left", left)
	}
	must(t, in.Close())
	_ = cmd.Wait() // sh fails at the end of what it reads
	must(t, p.hierarchies.RemoveAll(p.group("uid")+"/container"))
	if left := p.Left("uid"); left < 8<<20 {
		t.Errorf("left are %d", left)
	}
	must(t, given.Close())
	if left := p.Left("uid"); left >= 1<<20 {
		t.Errorf("when nobody has the file, left are %d", left)
	}
	if left := p.Left("another"); left != 0 {
		t.Errorf("of another pod %d are left", left)
	}
}
