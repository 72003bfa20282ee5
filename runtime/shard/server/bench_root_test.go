package server

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// BenchmarkContainers takes containers that run true through their whole life, beside a bare loop of the OCI runtime over
// the same bundle. With JOBD_SHIM set to a jobd-shim that one is measured, else the test binary.
func BenchmarkContainers(b *testing.B) {
	for _, runtime := range []string{"crun", "runc"} {
		for _, parallel := range []int{1, 4, 8} {
			b.Run(fmt.Sprintf("%s/bare/parallel=%d", runtime, parallel), func(b *testing.B) { benchmarkBare(b, runtime, parallel) })
			for _, shards := range []int{1, 4} {
				b.Run(fmt.Sprintf("%s/shards=%d/parallel=%d", runtime, shards, parallel), func(b *testing.B) { benchmarkShards(b, runtime, shards, parallel) })
			}
		}
	}
}

func benchmarkBare(b *testing.B, runtime string, parallel int) {
	bed := newBenchBed(b, runtime)
	spec := bed.spec("bare", "true")
	spec.Root.Path, spec.Linux.CgroupsPath = bed.image, ""
	spec.Root.Readonly = true
	encoded, err := json.Marshal(spec)
	must(b, err)
	bundle := filepath.Join(bed.dir, "bundle")
	must(b, os.MkdirAll(bundle, 0o755))
	must(b, os.WriteFile(filepath.Join(bundle, configFile), encoded, 0o644))
	var ids strings.Builder
	for i := range b.N {
		fmt.Fprintf(&ids, "%s-%d\n", filepath.Base(bed.cgroup), i)
	}
	hide := "true"
	if h, err := cgroup.Find(); err == nil && h.Extra() != "" {
		hide = "umount " + h.Extra()
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", hide+`; exec "$@"`, "sh",
		"xargs", "-P", fmt.Sprint(parallel), "-I{}", bed.runtime, "--root", filepath.Join(bed.dir, "state"), "run", "-b", bundle, "{}")
	cmd.Stdin = strings.NewReader(ids.String())
	b.ResetTimer()
	if output, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, output)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "containers/s")
	used := cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()
	b.ReportMetric(1000*used.Seconds()/float64(b.N), "cpu-ms/container")
}

// processorTime is what a process and its ended children have used.
func processorTime(b *testing.B, pid int) (own, children float64) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(b, err)
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	seconds := func(field int) float64 {
		ticks, err := strconv.Atoi(fields[field])
		must(b, err)
		return float64(ticks) / 100
	}
	return seconds(11) + seconds(12), seconds(13) + seconds(14)
}

func newBenchBed(b *testing.B, runtime string) *bed {
	if _, err := os.Stat("/dev/shm"); err == nil {
		b.Setenv("TMPDIR", "/dev/shm") // as the state directory is
	}
	return newBed(b, runtime)
}

func benchmarkShards(b *testing.B, runtime string, shards, parallel int) {
	var waiting sync.Map // id -> chan
	beds := make([]*bed, shards)
	for i := range beds {
		bed := newBenchBed(b, runtime)
		// One connection with another receiver of exits.
		must(b, bed.Close())
		bed.options.OnExit = func(c protocol.Container) {
			if ended, ok := waiting.LoadAndDelete(c.ID); ok {
				close(ended.(chan struct{}))
			}
		}
		if shim := os.Getenv("JOBD_SHIM"); shim != "" {
			bed.options.Binary = shim
		}
		bed.open()
		beds[i] = bed
	}
	requests := make([]protocol.Start, b.N)
	for i := range requests {
		bed := beds[i%shards]
		id := fmt.Sprintf("c%d", i)
		spec := bed.spec(id, "true")
		spec.Root.Readonly = true
		encoded, err := json.Marshal(spec)
		must(b, err)
		requests[i] = protocol.Start{
			ID: id, Spec: encoded, Runtime: bed.runtime, LogPath: bed.logPath("all"),
			Rootfs: []protocol.Mount{{Type: "bind", Source: bed.image, Options: []string{"rbind"}}},
		}
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	ctx := beds[0].context()
	b.ResetTimer()
	for range parallel {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				bed, request := beds[i%shards], requests[i]
				ended := make(chan struct{})
				waiting.Store(request.ID, ended)
				if _, err := bed.Start(ctx, request); err != nil {
					b.Error(err)
					return
				}
				<-ended
				if _, err := bed.Delete(ctx, request.ID); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "containers/s")
	b.StopTimer()
	var own, all float64
	for _, bed := range beds {
		o, c := processorTime(b, bed.PID())
		own, all = own+o, all+o+c
	}
	b.ReportMetric(1000*all/float64(b.N), "cpu-ms/container")
	b.ReportMetric(1000*own/float64(b.N), "shard-cpu-ms/container")
}

// BenchmarkLog is what a container's output costs: through a shard's log, and written by the container into a file.
func BenchmarkLog(b *testing.B) {
	const size = 256 << 20
	bed := newBenchBed(b, "crun")
	must(b, os.WriteFile(filepath.Join(bed.image, "lines"), []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", size/100)), 0o644))
	for b.Loop() {
		begin := time.Now()
		bed.run("logged", "cat", "/lines")
		bed.exit("logged")
		logged := time.Since(begin)
		begin = time.Now()
		bed.run("direct", "sh", "-c", "cat /lines > /file")
		bed.exit("direct")
		direct := time.Since(begin)
		for _, id := range []string{"logged", "direct"} {
			_, err := bed.Delete(bed.context(), id)
			must(b, err)
		}
		must(b, os.Remove(bed.logPath("logged")))
		must(b, os.RemoveAll(filepath.Join(bed.dir, "direct")))
		b.ReportMetric(size/1e6/logged.Seconds(), "logged-MB/s")
		b.ReportMetric(size/1e6/direct.Seconds(), "direct-MB/s")
	}
}
