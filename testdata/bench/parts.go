package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/runtime/simulated"
)

// sleepers measures how much one machine carries.
func (b *bench) sleepers(ctx context.Context) error {
	d, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer d.close()
	idle, idleShards := d.self(), d.shards()
	const n = 500
	took, err := d.watch(ctx, job("sleep", n, n, "sleep", "600"), func(j *batchv1.Job) bool {
		return j.Status.Ready != nil && *j.Status.Ready == n
	})
	if err != nil {
		return err
	}
	full, fullShards := d.self(), d.shards()
	d.Kill()
	again, err := d.serve(ctx)
	if err != nil {
		return err
	}
	second, err := b.seconds(ctx, n)
	if err != nil {
		return err
	}
	b.report.figure("Sleepers/OneSecond", []float64{second.Seconds()}, "s")
	b.report.figure("Sleepers/AllRunning", []float64{took.Seconds()}, "s")
	b.report.figure("Idle/RSS", []float64{idle.RSS}, "MB")
	b.report.figure("Idle/RssAnon", []float64{idle.Anon}, "MB")
	b.report.table(
		"500 pods that sleep", "all running after s", "all done when they sleep 1 s, s", "idle RSS (anonymous) MB",
		"shards idle MB", "daemon with 500 MB", "shards with 500 MB", "kB for each pod", "first answer after kill -9 ms",
	)
	b.report.row(fmt.Sprintf("%.1f", took.Seconds()), fmt.Sprintf("%.1f", second.Seconds()), fmt.Sprintf(
		"%.0f (%.0f)", idle.RSS, idle.Anon,
	), fmt.Sprintf("%.0f", idleShards.RSS),
		fmt.Sprintf("%.0f (%.0f)", full.RSS, full.Anon), fmt.Sprintf("%.0f", fullShards.RSS),
		fmt.Sprintf("%.0f", (full.RSS+fullShards.RSS-idle.RSS-idleShards.RSS)/n*1024), fmt.Sprintf("%.0f", again.Seconds()*1000))
	return nil
}

// seconds returns how long n pods take that sleep for a second, all at a time.
func (b *bench) seconds(ctx context.Context, n int) (time.Duration, error) {
	d, err := b.start(ctx, "--max-pods", strconv.Itoa(n))
	if err != nil {
		return 0, err
	}
	defer d.close()
	return d.run(ctx, job("second", n, n, "sleep", "1"))
}

// logs measures how fast containers can write through jobd's log.
func (b *bench) logs(ctx context.Context) error {
	d, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer d.close()
	const mb = 100
	command := fmt.Sprintf("yes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -c %d", mb<<20)
	b.report.table("Log throughput: lines of 71 bytes", "containers", "jobd MB/s", "crun run > file MB/s", "ratio")
	for _, n := range []int{1, 8} {
		var through, direct []float64
		for range b.rounds {
			took, err := d.run(ctx, job("chatty", n, n, "sh", "-c", command))
			if err != nil {
				return err
			}
			through = append(through, float64(n*mb)/took.Seconds())
			if _, err := d.remove(ctx, "chatty"); err != nil {
				return err
			}
			begin := time.Now()
			if err := b.raw.chatty(ctx, n, command, filepath.Join(d.Root, "raw")); err != nil {
				return err
			}
			direct = append(direct, float64(n*mb)/time.Since(begin).Seconds())
			for i := range n {
				os.Remove(fmt.Sprintf("%s/raw-%d", d.Root, i))
			}
		}
		b.report.figure(fmt.Sprintf("Logs/containers=%d", n), through, "MB/s")
		b.report.row(strconv.Itoa(n), spread(through, "%.0f"), spread(direct, "%.0f"), fmt.Sprintf("%.2f", median(through)/median(direct)))
	}
	return nil
}

// startup measures the time to the first answer.
func (b *bench) startup(ctx context.Context) error {
	d, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer d.close()
	var empty []float64
	for range b.rounds {
		d.Kill()
		took, err := d.serve(ctx)
		if err != nil {
			return err
		}
		empty = append(empty, took.Seconds()*1000)
	}
	full, err := b.start(ctx, "--runtime", "simulated")
	if err != nil {
		return err
	}
	defer full.close()
	if err := full.finishedJobs(ctx, 10000); err != nil {
		return err
	}
	full.Kill()
	full.Flags = []string{"--log-level", "error"} // with containers
	var filled []float64
	for range b.rounds {
		took, err := full.serve(ctx)
		if err != nil {
			return err
		}
		filled = append(filled, took.Seconds()*1000)
		full.Kill()
	}
	if _, err := full.serve(ctx); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	with := full.self()
	b.report.figure("Startup/empty", empty, "ms")
	b.report.figure("Startup/jobs=10000", filled, "ms")
	b.report.table("From start to the first answer", "empty ms", "10,000 finished Jobs ms", "RSS (anonymous) with them MB")
	b.report.row(spread(empty, "%.0f"), spread(filled, "%.0f"), fmt.Sprintf("%.0f (%.0f)", with.RSS, with.Anon))
	return nil
}

// finishedJobs runs n Jobs of one pod each to their end.
func (d *daemon) finishedJobs(ctx context.Context, n int) error {
	for i := range n {
		if _, err := d.BatchV1().Jobs("default").Create(ctx, job(fmt.Sprintf("done-%d", i), 1, 1, "true"), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	_, err := d.run(ctx, job("last", 1, 1, "true"))
	return err
}

// controller measures the cost of the decisions alone: pods that succeed after a delay, without containers.
func (b *bench) controller(ctx context.Context) error {
	b.report.table(
		"The controller alone: simulated pods that succeed at once", "pods", "parallel", "s", "us a pod", "CPU s", "cluster s",
		"cluster CPU s", "RssAnon MB", "at rest MB", "delete s",
	)
	for _, c := range []struct {
		pods, parallel    int
		cluster, clustCPU string
	}{
		{1000, 100, "-", "-"}, {10000, 100, "105", "112"}, {10000, 10000, "50", "82"}, {100000, 1000, "-", "-"},
	} {
		if b.quick && c.pods > 10000 {
			continue
		}
		d, err := b.start(ctx, "--runtime", "simulated", "--max-pods", "100000")
		if err != nil {
			return err
		}
		before := d.self()
		j := job("many", c.pods, c.parallel, "true")
		j.Spec.Template.Annotations = map[string]string{simulated.Duration: "0s"}
		took, err := d.run(ctx, j)
		if err == nil {
			after := d.self()
			time.Sleep(settling)
			rest := d.self()
			var gone time.Duration
			if gone, err = d.remove(ctx, "many"); err == nil {
				b.report.figure(fmt.Sprintf("Controller/pods=%d/parallel=%d", c.pods, c.parallel), []float64{took.Seconds()}, "s")
				b.report.row(strconv.Itoa(c.pods), strconv.Itoa(c.parallel), fmt.Sprintf("%.1f", took.Seconds()), fmt.Sprintf(
					"%.0f", took.Seconds()*1e6/float64(c.pods),
				),
					fmt.Sprintf(
						"%.1f", after.CPU-before.CPU,
					), c.cluster, c.clustCPU, fmt.Sprintf("%.0f", after.Anon), fmt.Sprintf("%.0f", rest.Anon), fmt.Sprintf("%.1f", gone.Seconds()))
			}
		}
		d.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sizes(context.Context) error {
	b.report.table("Binaries", "program", "MB")
	for _, name := range []string{"jobd", "jobctl", "jobd-shim"} {
		info, err := os.Stat(filepath.Join(b.bin, name))
		if err != nil {
			return err
		}
		b.report.figure("Size/"+name, []float64{float64(info.Size()) / 1e6}, "MB")
		b.report.row(name, fmt.Sprintf("%.1f", float64(info.Size())/1e6))
	}
	return nil
}
