package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/runtime/simulated"
)

// podsOfEach is how many pods each Job of the curve has.
const podsOfEach = 10

// curve measures what becomes of the daemon as finished Jobs and pods pile up that nobody removes.
func (b *bench) curve(ctx context.Context) error {
	b.report.table("Finished Jobs of ten pods that stay", "Jobs", "pods", "database MB", "filled at pods/s", "RSS (anonymous) at rest MB",
		"start to first answer ms",
		"one more Job to Complete p50 ms", "a page of 500 Jobs ms", "the pods of a Job ms", "all Jobs s", "compaction s",
		"longest get meanwhile ms", "longest create meanwhile ms")
	d, err := b.start(ctx, "--runtime", "simulated", "--max-pods", "1000")
	if err != nil {
		return err
	}
	defer d.close()
	have := 0
	for _, jobs := range []int{1_000, 10_000, 30_000, 100_000} {
		if b.quick && jobs > 1_000 {
			break
		}
		rate, err := d.pile(ctx, have, jobs)
		if err != nil {
			return err
		}
		have = jobs
		time.Sleep(settling)
		rest := d.self()
		var starts, complete []float64
		for range b.rounds {
			d.Kill()
			took, err := d.serve(ctx)
			if err != nil {
				return err
			}
			starts = append(starts, took.Seconds()*1000)
		}
		for i := range 20 {
			took, err := d.run(ctx, piled(fmt.Sprintf("more-%d-%d", jobs, i), 1))
			if err != nil {
				return err
			}
			complete = append(complete, took.Seconds()*1000)
		}
		page, err := timed(b.rounds, func(int) error {
			_, err := d.BatchV1().Jobs("default").List(ctx, metav1.ListOptions{Limit: 500})
			return err
		})
		if err != nil {
			return err
		}
		ofOne, err := timed(b.rounds, func(i int) error {
			_, err := d.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + pileName(i*jobs/b.rounds)})
			return err
		})
		if err != nil {
			return err
		}
		all, err := timed(1, func(int) error {
			o := metav1.ListOptions{Limit: 500}
			for {
				list, err := d.BatchV1().Jobs("default").List(ctx, o)
				if err != nil || list.Continue == "" {
					return err
				}
				o.Continue = list.Continue
			}
		})
		if err != nil {
			return err
		}
		size := d.databaseMB()
		c, err := d.compact(ctx, jobs)
		if err != nil {
			return err
		}
		for unit, values := range map[string][]float64{"start-ms": starts, "complete-ms": complete, "page-ms": page, "pods-of-one-ms": ofOne} {
			b.report.figure(fmt.Sprintf("Curve/jobs=%d", jobs), values, unit)
		}
		b.report.row(fmt.Sprint(jobs), fmt.Sprint(jobs*podsOfEach), size, fmt.Sprintf("%.0f", rate),
			fmt.Sprintf(
				"%.0f (%.0f)", rest.RSS, rest.Anon,
			), fmt.Sprintf("%.0f", median(starts)), fmt.Sprintf("%.0f", median(complete)), fmt.Sprintf("%.0f", median(page)),
			fmt.Sprintf("%.1f", median(ofOne)), fmt.Sprintf("%.1f", all[0]/1000), fmt.Sprintf("%.1f", c.took.Seconds()),
			fmt.Sprintf("%.0f", c.get.Seconds()*1000), fmt.Sprintf("%.0f", c.create.Seconds()*1000))
	}
	return nil
}

// timed returns how long each of n calls took, in ms.
func timed(n int, f func(int) error) (ms []float64, err error) {
	for i := range n {
		begin := time.Now()
		if err := f(i); err != nil {
			return nil, err
		}
		ms = append(ms, time.Since(begin).Seconds()*1000)
	}
	return ms, nil
}

func pileName(i int) string { return fmt.Sprintf("job-%06d", i) }

// piled returns a Job of n simulated pods that succeed at once.
func piled(name string, n int) *batchv1.Job {
	j := job(name, n, n, "true")
	j.Spec.Template.Annotations = map[string]string{simulated.Duration: "0s"}
	return j
}

// byEight has eight clients do something for each number from one up to another.
func byEight(ctx context.Context, from, to int, do func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	next.Store(int64(from))
	clients, ctx := errgroup.WithContext(ctx)
	for range 8 {
		clients.Go(func() error {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return clients.Wait()
}

// databaseMB is how large the file of the database is.
func (d *daemon) databaseMB() string {
	info, err := os.Stat(filepath.Join(d.Root, "jobd.db"))
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", float64(info.Size())/1e6)
}

// pile creates the Jobs from one number up to another by eight clients, waits for their ends, and returns the pods a second.
func (d *daemon) pile(ctx context.Context, from, to int) (rate float64, err error) {
	begin := time.Now()
	err = byEight(ctx, from, to, func(ctx context.Context, i int) error {
		_, err := d.BatchV1().Jobs("default").Create(ctx, piled(pileName(i), podsOfEach), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return 0, err
	}
	for {
		asked := time.Now()
		list, err := d.BatchV1().Jobs("default").List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: "status.successful=0"})
		if err != nil {
			return 0, err
		}
		if len(list.Items) == 0 {
			break
		}
		time.Sleep(time.Second + 4*time.Since(asked))
	}
	return float64((to-from)*podsOfEach) / time.Since(begin).Seconds(), nil
}

// compaction is what one took, and the longest that clients waited for an answer meanwhile.
type compaction struct{ took, get, create time.Duration }

func (d *daemon) compact(ctx context.Context, jobs int) (c compaction, err error) {
	ended, end := context.WithCancel(ctx)
	defer end()
	var clients errgroup.Group
	clients.Go(func() error {
		for i := 0; ended.Err() == nil; i++ {
			begin := time.Now()
			if _, err := d.BatchV1().Jobs("default").Get(ctx, pileName(i%jobs), metav1.GetOptions{}); err != nil {
				return err
			}
			c.get = max(c.get, time.Since(begin))
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	clients.Go(func() error {
		for i := 0; ended.Err() == nil; i++ {
			begin := time.Now()
			if _, err := d.BatchV1().Jobs("default").Create(ctx, piled(fmt.Sprintf("beside-%d-%d", jobs, i), 1), metav1.CreateOptions{}); err != nil {
				return err
			}
			c.create = max(c.create, time.Since(begin))
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	begin := time.Now()
	out, err := exec.CommandContext(ctx, filepath.Join(d.Bin, "jobd"), "db", "compact", "--root", d.Root, "--state", d.State).CombinedOutput()
	c.took = time.Since(begin)
	end()
	if err != nil {
		return c, fmt.Errorf("jobd db compact: %w: %s", err, out)
	}
	return c, clients.Wait()
}
