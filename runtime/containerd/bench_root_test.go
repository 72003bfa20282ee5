package containerd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/runtime"
)

// BenchmarkContainer runs containers of `true` from the spec to the removed snapshot and, for comparison, crun alone
// with the same spec and one root file system for all.
func BenchmarkContainer(b *testing.B) {
	r := newRig(b, "crun")
	var n atomic.Int64
	for _, parallel := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("jobd/parallel=%d", parallel), func(b *testing.B) {
			var create, start, exit, remove atomic.Int64
			inParallel(b, parallel, func() error {
				p := benchPod(fmt.Sprintf("b%d", n.Add(1)))
				c, err := r.prepare(p, "main")
				if err != nil {
					return err
				}
				held := &container{shard: r.shards.of(c.PodUID), ended: make(chan struct{}), status: runtime.Status{ID: c.ID, State: runtime.Created}}
				r.mu.Lock()
				r.containers[c.ID] = held
				r.mu.Unlock()
				t0 := time.Now()
				if _, err := r.create(inNamespace(context.Background()), c, 0); err != nil {
					return err
				}
				t1 := time.Now()
				if _, err := r.Start(context.Background(), c); err != nil {
					return err
				}
				t2 := time.Now()
				<-held.ended
				t3 := time.Now()
				if err := r.Remove(context.Background(), c.ID); err != nil {
					return err
				}
				t4 := time.Now()
				create.Add(int64(t1.Sub(t0)))
				start.Add(int64(t2.Sub(t1)))
				exit.Add(int64(t3.Sub(t2)))
				remove.Add(int64(t4.Sub(t3)))
				return r.volumes.TearDown(context.Background(), string(p.UID))
			})
			for name, sum := range map[string]*atomic.Int64{"create": &create, "start": &start, "exit": &exit, "remove": &remove} {
				b.ReportMetric(float64(sum.Load())/float64(b.N)/1e6, name+"-ms")
			}
		})
		b.Run(fmt.Sprintf("crun/parallel=%d", parallel), func(b *testing.B) {
			bundle := rawBundle(b, r)
			var ids strings.Builder
			for range b.N {
				fmt.Fprintf(&ids, "jobd-raw%d\n", n.Add(1))
			}
			cmd := exec.Command("unshare", "-m", "sh", "-c", `umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"`, "sh",
				"xargs", "-P", fmt.Sprint(parallel), "-I{}", "crun", "--root", bundle+"/state", "run", "--bundle", bundle, "{}")
			cmd.Stdin = strings.NewReader(ids.String())
			b.ResetTimer()
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per-s")
		})
	}
}

// benchPod requests a CPU: with the minimum of CPU shares, the benchmark would measure how busy the machine is
// otherwise.
func benchPod(uid string) *corev1.Pod {
	p := pod(uid, "")
	p.Spec.Containers[0].Command = []string{"true"}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	return p
}

func inParallel(b *testing.B, parallel int, one func() error) {
	var group sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	for range parallel {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := one(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per-s")
}

// rawBundle makes a bundle of the same container for crun alone, whose root file system is mounted once, and returns
// its path.
func rawBundle(b *testing.B, r *rig) string {
	c := r.container(b, benchPod("raw"), "main")
	made, err := r.create(inNamespace(context.Background()), c, 0)
	if err != nil {
		b.Fatal(err)
	}
	bundle := filepath.Join(r.config.State, "raw")
	if err := os.MkdirAll(bundle+"/rootfs", 0o755); err != nil {
		b.Fatal(err)
	}
	if err := unix.Mount("overlay", bundle+"/rootfs", "overlay", 0, strings.Join(made.rootfs[0].Options, ",")); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		unix.Unmount(bundle+"/rootfs", 0)
		os.RemoveAll(bundle)
		if err := r.server.layers.discard(context.Background(), c.ID); err != nil {
			b.Error(err)
		}
		r.server.commits.run(inNamespace(context.Background()), func(ctx context.Context) error {
			r.server.containers().Delete(ctx, c.ID)
			return r.server.snapshots().Remove(ctx, c.ID)
		})
	})
	c.Spec.Root.Path, c.Spec.Linux.CgroupsPath, c.Spec.Process.User.Username = "rootfs", "", ""
	spec, err := json.Marshal(c.Spec)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(bundle+"/config.json", spec, 0o600); err != nil {
		b.Fatal(err)
	}
	return bundle
}

func BenchmarkOpen(b *testing.B) {
	r := newRig(b, "crun")
	b.Run("shards running, self-test known", func(b *testing.B) {
		for b.Loop() {
			r.Close()
			r.open(b)
		}
	})
	b.Run("shards to be started, self-test known", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			r.Close()
			if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			r.open(b)
		}
	})
	b.Run("everything new", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			r.Close()
			if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
				b.Fatal(err)
			}
			os.RemoveAll(r.config.Root)
			b.StartTimer()
			r.open(b)
		}
	})
}
