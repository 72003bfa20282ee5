package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/runtime"
)

// The group of all pods has the weight that the settings say, and the usual one again without them.
func TestPodsYieldToTheMachine(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--pods-cpu-weight", "idle", "--pods-io-weight", "10")
	d.apply(jobManifest{name: "runs"}.String())
	d.running("runs", 1)
	group := runtime.CgroupParent(d.root)
	read := func(names ...string) string {
		t.Helper()
		for _, name := range names {
			for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"} {
				if content, err := os.ReadFile(filepath.Join(mount, group, name)); err == nil {
					return strings.TrimSpace(string(content))
				}
			}
		}
		t.Skipf("this host has none of %v", names)
		return ""
	}
	if got := read("cpu.idle"); got != "1" {
		t.Errorf("the pods are not idle: %s", got)
	}
	for _, c := range []struct{ flag, v1, v2 string }{{"200", "2048", "200"}, {"", "1024", "100"}} {
		d.kill()
		d.flags = []string{"--network", "none", "--pods-cpu-weight", c.flag}
		d.serve()
		if got := read("cpu.weight", "cpu.shares"); got != c.v1 && got != c.v2 {
			t.Errorf("with %q the weight is %s", c.flag, got)
		}
		if got := read("cpu.idle"); got != "0" {
			t.Errorf("with %q the pods are idle: %s", c.flag, got)
		}
	}
	d.running("runs", 1)
}
