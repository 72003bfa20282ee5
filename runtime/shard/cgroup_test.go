package shard

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseHierarchies(t *testing.T) {
	for name, c := range map[string]struct {
		mounts string
		want   hierarchies
	}{
		"cgroup v2": {
			"proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
			hierarchies{all: []string{"/sys/fs/cgroup"}, memory: "/sys/fs/cgroup", v2: true},
		},
		"hybrid": {
			"cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup /c/memory cgroup rw,memory 0 0\ncgroup2 /c/unified cgroup2 rw 0 0\n",
			hierarchies{all: []string{"/c/cpu,cpuacct", "/c/memory"}, memory: "/c/memory", extra: "/c/unified"},
		},
		"cgroup v1, mounted twice": {
			"cgroup /c/memory cgroup rw,memory 0 0\ncgroup /c/memory cgroup rw,memory 0 0\n",
			hierarchies{all: []string{"/c/memory"}, memory: "/c/memory"},
		},
		"none": {"proc /proc proc rw 0 0\nshort\n", hierarchies{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseHierarchies(strings.NewReader(c.mounts)); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestParseOOMKills(t *testing.T) {
	for name, c := range map[string]struct {
		events string
		want   int
	}{
		"cgroup v1":                {"oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2},
		"cgroup v2":                {"low 0\nhigh 0\nmax 41\noom 5\noom_kill 1\noom_group_kill 0\n", 1},
		"none":                     {"oom_kill 0\n", 0},
		"a kernel too old":         {"oom_kill_disable 0\n", 0},
		"nothing that is a number": {"oom_kill x\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseOOMKills(c.events); got != c.want {
				t.Errorf("got %d", got)
			}
		})
	}
}

func TestCgroupTreeOnDisk(t *testing.T) {
	root := t.TempDir()
	h := hierarchies{all: []string{root}, memory: root, v2: true}
	must(t, os.MkdirAll(filepath.Join(root, "pod/c"), 0o755))
	must(t, h.remove("/pod/c"))
	must(t, h.remove("/pod/c"))
	must(t, os.WriteFile(filepath.Join(root, "pod/cgroup.procs"), []byte("12\n34\n0\n"), 0o644))
	if got := h.processes("/pod"); !reflect.DeepEqual(got, []int{12, 34}) { // 0 is one that this PID namespace does not see
		t.Errorf("processes %v", got)
	}
	if got := h.processes("/none"); got != nil {
		t.Errorf("processes %v", got)
	}
}
