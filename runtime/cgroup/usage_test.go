package cgroup

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The figures of a group stand in different files and units in the two versions of control groups.
func TestUsage(t *testing.T) {
	root := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(root, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	write("v2/cgroup.controllers", "cpu memory pids\n")
	write("v2/g/cpu.stat", "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n")
	write("v2/g/memory.current", "5000\n")
	write("v2/g/memory.peak", "9000\n")
	write("v2/g/memory.stat", "anon 1000\nfile 3000\ninactive_file 2000\nactive_file 700\nslab_reclaimable 300\npgfault 7\npgmajfault 2\n")
	write("v2/g/memory.events", "low 0\noom 4\noom_kill 3\n")
	write("v2/old/memory.current", "10\n") // before Linux 5.19
	write("v2/old/memory.stat", "inactive_file 20\n")
	write("cpu/g/cpuacct.usage", "1500000000\n")
	write("cpu/g/cpuacct.usage_user", "1000000000\n")
	write("cpu/g/cpuacct.usage_sys", "500000000\n")
	write("memory/g/memory.usage_in_bytes", "5000\n")
	write("memory/g/memory.max_usage_in_bytes", "9000\n")
	write("memory/g/memory.stat", "cache 1\ntotal_cache 3000\ntotal_rss 1000\ntotal_inactive_file 2000\ntotal_active_file 700\ntotal_pgfault 7\ntotal_pgmajfault 2\n")
	write("memory/g/memory.kmem.usage_in_bytes", "300\n")
	write("memory/g/memory.oom_control", "oom_kill_disable 0\noom_kill 3\n")
	write("extra/cgroup.controllers", "")
	write("extra/g/cpu.stat", "usage_usec 1\n")

	all := Usage{
		CPU: 1500 * time.Millisecond, User: time.Second, System: 500 * time.Millisecond,
		Memory: 5000, PeakMemory: 9000, WorkingSet: 3000, Held: 2000, RSS: 1000, Cache: 3000, MajorFaults: 2, MinorFaults: 5, OOMKills: 3,
	}
	unified := Hierarchies{all: []hierarchy{{mount: filepath.Join(root, "v2"), v2: true}}}
	hybrid := Hierarchies{all: []hierarchy{
		{mount: filepath.Join(root, "cpu"), options: []string{"rw", "cpu", "cpuacct"}},
		{mount: filepath.Join(root, "memory"), options: []string{"rw", "memory"}},
		{mount: filepath.Join(root, "extra"), v2: true},
	}}
	for name, c := range map[string]struct {
		of    Hierarchies
		group string
		want  Usage
		ok    bool
	}{
		"cgroup v2":                 {unified, "/g", all, true},
		"hybrid":                    {hybrid, "/g", all, true},
		"no peak":                   {unified, "/old", Usage{Memory: 10}, true},
		"no such group":             {unified, "/none", Usage{}, false},
		"no such group of a hybrid": {hybrid, "/none", Usage{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := c.of.Usage(c.group); got != c.want || ok != c.ok {
				t.Errorf("got %+v, %v", got, ok)
			}
			if cpu, peak := c.of.Used(c.group); cpu != c.want.CPU || peak != c.want.PeakMemory {
				t.Errorf("used %v and %d bytes", cpu, peak)
			}
		})
	}
}

// What a process of a group has used is known after its end, for as long as the group is there.
func TestUsageOfEnded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	h, err := Find()
	must(t, err)
	group := "/jobd-test-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() { _ = h.RemoveAll(group) })
	cmd := exec.Command("sh", "-c", `read go; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; x=$(head -c 20000000 /dev/zero | tr '\0' x); exit 0`)
	start, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	if err := Enter(group, cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Skipf("no control groups can be made here: %v", err)
	}
	_, err = start.Write([]byte("go\n"))
	must(t, err)
	must(t, cmd.Wait())
	u, ok := h.Usage(group)
	if !ok {
		t.Fatal("the group is not found")
	}
	if h.Has("cpuacct") || h.Extra() == "" && h.Has("cpu") {
		if u.CPU <= 0 {
			t.Errorf("no processor time: %+v", u)
		}
	}
	if h.accounted && u.PeakMemory == 0 && !h.main.v2 {
		t.Errorf("no peak of memory: %+v", u)
	}
	if h.accounted && u.PeakMemory != 0 && u.PeakMemory < 20_000_000 {
		t.Errorf("a peak of %d bytes", u.PeakMemory)
	}
}
