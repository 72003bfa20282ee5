package cgroup

import (
	"crypto/rand"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
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
