package cgroup

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHierarchies(t *testing.T) {
	v1 := func(mount, options string) hierarchy {
		return hierarchy{mount: mount, options: strings.Split("rw,"+options, ",")}
	}
	unified, memory := hierarchy{mount: "/c/unified", v2: true}, v1("/c/memory", "memory")
	for name, c := range map[string]struct {
		mounts string // type, place and options of each
		want   Hierarchies
	}{
		"cgroup v2":                {"cgroup2 /c/unified rw", Hierarchies{all: []hierarchy{unified}, main: unified, accounted: true}},
		"cgroup v2, mounted twice": {"cgroup2 /c/unified rw\ncgroup2 /elsewhere rw", Hierarchies{all: []hierarchy{unified}, main: unified, accounted: true}},
		"hybrid": {
			"cgroup /c/cpu,cpuacct rw,cpu,cpuacct\ncgroup /c/memory rw,memory\ncgroup2 /c/unified rw",
			Hierarchies{all: []hierarchy{v1("/c/cpu,cpuacct", "cpu,cpuacct"), memory, unified}, main: memory, accounted: true, extra: "/c/unified"},
		},
		"hybrid, v2 first": {
			"cgroup2 /c/unified rw\ncgroup /c/memory rw,memory",
			Hierarchies{all: []hierarchy{unified, memory}, main: memory, accounted: true, extra: "/c/unified"},
		},
		"cgroup v1, mounted twice": {
			"cgroup /c/memory rw,memory\ncgroup /c/memory rw,memory", Hierarchies{all: []hierarchy{memory}, main: memory, accounted: true},
		},
		"cgroup v1 without memory": {
			"cgroup /c/pids rw,pids\ncgroup /c/cpu rw,cpu",
			Hierarchies{all: []hierarchy{v1("/c/pids", "pids"), v1("/c/cpu", "cpu")}, main: v1("/c/pids", "pids")},
		},
		"none": {"", Hierarchies{}},
	} {
		t.Run(name, func(t *testing.T) {
			var mounts []*mountinfo.Info
			for line := range strings.Lines(c.mounts) {
				fields := strings.Fields(line)
				mounts = append(mounts, &mountinfo.Info{FSType: fields[0], Mountpoint: fields[1], VFSOptions: fields[2]})
			}
			if got := sortOut(mounts); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
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

func TestGroupsOnDisk(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	h := Hierarchies{all: []hierarchy{{mount: root}, {mount: other}}, main: hierarchy{mount: root}}
	must(t, os.MkdirAll(filepath.Join(root, "pod/c"), 0o755))
	must(t, os.MkdirAll(filepath.Join(other, "pod/d"), 0o755))
	must(t, os.MkdirAll(filepath.Join(other, "pod/c"), 0o755))
	if got, err := h.Children("/pod"); err != nil || !reflect.DeepEqual(got, []string{"c", "d"}) {
		t.Errorf("children %v, %v", got, err)
	}
	if got, err := h.Children("/none"); err != nil || got != nil {
		t.Errorf("children %v, %v", got, err)
	}
	must(t, h.Remove("/pod/c"))
	must(t, h.Remove("/pod/c"))
	must(t, h.RemoveAll("/pod/d"))
	if got, err := h.Children("/pod"); err != nil || got != nil {
		t.Errorf("left: %v, %v", got, err)
	}
	must(t, os.WriteFile(filepath.Join(root, "pod/cgroup.procs"), []byte("12\n34\n0\n"), 0o644))
	if got := h.Processes("/pod"); !reflect.DeepEqual(got, []int{12, 34}) { // 0 is one that this PID namespace does not see
		t.Errorf("processes %v", got)
	}
	if got := h.Processes("/none"); got != nil {
		t.Errorf("processes %v", got)
	}
}
