package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// limited returns limits of both; 0 is none.
func limited(memory, quota int64) *specs.LinuxResources {
	shares, period := uint64(512), uint64(100000)
	r := &specs.LinuxResources{CPU: &specs.LinuxCPU{Shares: &shares}}
	if quota > 0 {
		r.CPU.Quota, r.CPU.Period = &quota, &period
	}
	if memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &memory, Swap: &memory}
	}
	return r
}

// The groups of a pod are changed in both versions of control groups, and in which order.
func TestResize(t *testing.T) {
	type group = map[string]string // content by file
	versions := map[string]struct {
		one              hierarchy
		limit, usage     string
		quota            string
		quotas, memories [2]string // of 20 and 50 ms; of 1 MiB and none
	}{
		"v1": {hierarchy{options: []string{"cpu", "memory"}}, "memory.limit_in_bytes", "memory.usage_in_bytes", "cpu.cfs_quota_us",
			[2]string{"20000", "50000"}, [2]string{"1048576", "-1"}},
		"v2": {hierarchy{v2: true}, "memory.max", "memory.current", "cpu.max",
			[2]string{"20000 100000", "50000 100000"}, [2]string{"1048576", "max"}},
	}
	for name, v := range versions {
		world := func(t *testing.T) (*Pods, func(group string) group) {
			v.one.mount = t.TempDir()
			must(t, os.WriteFile(filepath.Join(v.one.mount, "cgroup.controllers"), []byte("cpu memory"), 0o644))
			for _, g := range []string{"", "/pod-u", "/pod-u/c", "/pod-u/d", "/e"} {
				dir := filepath.Join(v.one.mount, "jobd"+g)
				must(t, os.MkdirAll(dir, 0o755))
				files := group{v.limit: v.memories[0], v.usage: "4096", v.quota: v.quotas[0], "memory.memsw.limit_in_bytes": v.memories[0]}
				for file, content := range files {
					must(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644))
				}
			}
			read := func(of string) group {
				out := group{}
				for _, file := range []string{v.limit, v.quota} {
					content, err := os.ReadFile(filepath.Join(v.one.mount, "jobd"+of, file))
					must(t, err)
					out[file] = string(content)
				}
				return out
			}
			return &Pods{"/jobd", Hierarchies{all: []hierarchy{v.one}, main: v.one, accounted: true}}, read
		}
		wantIs := func(t *testing.T, is group, memory, quota string) {
			t.Helper()
			if is[v.limit] != memory || is[v.quota] != quota {
				t.Errorf("got %v, want %s and %s", is, memory, quota)
			}
		}
		containers := func(r *specs.LinuxResources, ids ...string) (out []ResizedContainer) {
			for _, id := range ids {
				out = append(out, ResizedContainer{"c", id, r})
			}
			return out
		}
		t.Run(name+", a pod with a group of its own", func(t *testing.T) {
			p, read := world(t)
			must(t, p.Resize(Resize{UID: "u", Pod: limited(0, 50000), Containers: containers(limited(0, 50000), "c", "gone")}))
			wantIs(t, read("/pod-u"), v.memories[1], v.quotas[1])
			wantIs(t, read("/pod-u/c"), v.memories[1], v.quotas[1])
			wantIs(t, read("/pod-u/d"), v.memories[0], v.quotas[0])
			must(t, p.Resize(Resize{UID: "u", Pod: limited(1<<20, 20000), Loosen: true, Containers: containers(limited(1<<20, 20000), "c")}))
			wantIs(t, read("/pod-u"), v.memories[1], v.quotas[1])
			wantIs(t, read("/pod-u/c"), v.memories[0], v.quotas[0])
			must(t, p.Resize(Resize{UID: "u", Pod: limited(1<<20, 20000)}))
			wantIs(t, read("/pod-u"), v.memories[0], v.quotas[0])
		})
		t.Run(name+", a pod without", func(t *testing.T) {
			p, read := world(t)
			must(t, p.Resize(Resize{UID: "x", Pod: limited(0, 50000), Containers: containers(limited(0, 50000), "e")}))
			wantIs(t, read("/e"), v.memories[1], v.quotas[1])
		})
		t.Run(name+", a pod whose containers for debugging have one", func(t *testing.T) {
			p, read := world(t)
			must(t, p.Resize(Resize{UID: "u", Containers: containers(limited(0, 50000), "e")}))
			wantIs(t, read("/e"), v.memories[1], v.quotas[1])
			wantIs(t, read("/pod-u"), v.memories[0], v.quotas[0])
		})
		t.Run(name+", less than it uses", func(t *testing.T) {
			p, read := world(t)
			err := p.Resize(Resize{UID: "u", Pod: limited(2048, 50000), Containers: containers(limited(1024, 50000), "c")})
			want := `cannot decrease memory limits: [attempting to set pod memory limit (2048) below current usage (4096), ` +
				`attempting to set container "c" memory limit (1024) below current usage (4096)]`
			if fmt.Sprint(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
			for _, g := range []string{"/pod-u", "/pod-u/c"} {
				wantIs(t, read(g), v.memories[0], v.quotas[0])
			}
		})
	}
}

// The limit of memory and swap is never below that of memory.
func TestMemoryAndSwapAreRaisedAndLoweredInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} {
		must(t, os.WriteFile(filepath.Join(dir, file), []byte("4096\n"), 0o644))
	}
	for limit, first := range map[int64]string{0: "memory.memsw.limit_in_bytes", 8192: "memory.memsw.limit_in_bytes", 2048: "memory.limit_in_bytes"} {
		files := memoryV1(dir, limited(limit, 0).Memory)
		if len(files) != 2 || files[0].name != first {
			t.Errorf("to %d: %v", limit, files)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte("9223372036854771712\n"), 0o644))
	if files := memoryV1(dir, limited(8192, 0).Memory); files[0].name != "memory.limit_in_bytes" {
		t.Errorf("a first limit: %v", files)
	}
	if got := number(dir, "none"); got != unlimited {
		t.Errorf("a file that is not there: %d", got)
	}
	must(t, os.WriteFile(filepath.Join(dir, "large"), []byte("9223372036854771712\n"), 0o644))
	if got := number(dir, "large"); got != unlimited {
		t.Errorf("the largest number of pages: %d", got)
	}
	if all := memoryV2(dir, limited(4096, 0).Memory); !slices.Equal(all, []file{{"memory.max", "4096"}}) || strings.Contains(all[0].name, "swap") {
		t.Errorf("without a limit of swap: %v", all)
	}
}
