package main

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/testdata/rig"
)

// footprint measures the memory of the daemon with what it keeps, a while after it has come to rest. RssAnon leaves out
// the mapped database, which the kernel takes back when it needs the room.
func (b *bench) footprint(ctx context.Context) error {
	b.report.table("Memory of the daemon", "with", "VmRSS MB", "RssAnon MB", "aim")
	for _, c := range []struct {
		name, aim string
		fill      func(context.Context, *daemon) error
	}{
		{"nothing", "40", func(context.Context, *daemon) error { return nil }},
		{"10,000 finished Jobs", "80", func(ctx context.Context, d *daemon) error { return d.finishedJobs(ctx, 10000) }},
		{"10,000 Jobs, each of a running pod", "80", func(ctx context.Context, d *daemon) error {
			for i := range 10000 {
				if _, err := d.BatchV1().Jobs("default").Create(ctx, lasting(fmt.Sprintf("live-%d", i), 1), metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return d.allRun(ctx, lasting("last", 1))
		}},
		{"100,000 running pods", "150", func(ctx context.Context, d *daemon) error { return d.allRun(ctx, lasting("many", 100000)) }},
	} {
		d, err := b.start(ctx, "--runtime", "simulated", "--max-pods", "200000")
		if err != nil {
			return err
		}
		var settled rig.Usage
		if err = c.fill(ctx, d); err == nil {
			time.Sleep(settling)
			settled = d.self()
		}
		d.close()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		b.report.figure("Memory/with="+c.name, []float64{settled.Anon}, "MB")
		b.report.row(c.name, fmt.Sprintf("%.0f", settled.RSS), fmt.Sprintf("%.0f", settled.Anon), c.aim)
	}
	return nil
}

// settling is how long the daemon gets to return memory that it does not need.
const settling = 20 * time.Second

// lasting returns a Job of n pods that run until the end of the benchmark.
func lasting(name string, n int) *batchv1.Job {
	j := job(name, n, n, "sleep", "inf")
	j.Spec.Template.Annotations = map[string]string{simulated.Duration: "24h"}
	return j
}

// allRun creates a Job and waits until all its pods are ready.
func (d *daemon) allRun(ctx context.Context, j *batchv1.Job) error {
	_, err := d.watch(ctx, j, func(seen *batchv1.Job) bool {
		return seen.Status.Ready != nil && *seen.Status.Ready == *j.Spec.Parallelism
	})
	return err
}
