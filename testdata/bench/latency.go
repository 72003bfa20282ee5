package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jobd/jobd/runtime/simulated"
)

// latency measures what one Job of `echo` takes from its creation to its first line, and until a watcher sees it Complete: on a
// daemon that has nothing else, beside running pods, and with many that have ended.
func (b *bench) latency(ctx context.Context) error {
	b.report.table(
		"One Job of `echo`, from create, 100 times", "beside", "to its first line p50 ms", "p99 ms", "to Complete p50 ms",
		"p99 ms", "CPU ms of the machine", "cluster p50 ms", "ratio",
	)
	for _, c := range []struct {
		beside string
		fill   func(context.Context, *daemon) error
	}{
		{"nothing", func(context.Context, *daemon) error { return nil }},
		{"200 running pods", func(ctx context.Context, d *daemon) error {
			return d.allRun(ctx, job("sleep", 200, 200, "sleep", "86400"))
		}},
		{"100,000 finished pods", func(ctx context.Context, d *daemon) error { return d.finishedPods(ctx, 100000) }},
	} {
		if b.quick && c.beside == "100,000 finished pods" {
			continue
		}
		d, err := b.start(ctx)
		if err != nil {
			return err
		}
		var first, complete []float64
		var cpu float64
		if err = c.fill(ctx, d); err == nil {
			first, complete, cpu, err = d.latencies(ctx, 100)
		}
		d.close()
		if err != nil {
			return fmt.Errorf("%s: %w", c.beside, err)
		}
		b.report.figure("ApplyToFirstInstruction/beside="+c.beside, first, "ms")
		b.report.figure("ApplyToComplete/beside="+c.beside, complete, "ms")
		b.report.row(c.beside, fmt.Sprintf("%.0f", median(first)), fmt.Sprintf("%.0f", quantile(first, 0.99)),
			fmt.Sprintf("%.0f", median(complete)), fmt.Sprintf(
				"%.0f", quantile(complete, 0.99),
			), fmt.Sprintf("%.1f", cpu), "3060", fmt.Sprintf("%.0f x", 3060/median(complete)))
	}
	return nil
}

// latencies runs n Jobs of one pod, one after the other, and returns the times to their first lines and ends in ms, and
// the CPU time in ms that the machine, but for this process, spent on each.
func (d *daemon) latencies(ctx context.Context, n int) (first, complete []float64, cpu float64, err error) {
	var machine, own float64
	for i := range n + 1 {
		if i == 1 { // the first one warms up
			machine, own = machineCPU(), ownCPU()
		}
		begin, name := time.Now(), fmt.Sprintf("one-%d", i)
		took, err := d.run(ctx, job(name, 1, 1, "echo", "here"))
		if err != nil {
			return nil, nil, 0, err
		}
		wrote, err := d.firstLine(ctx, name)
		if err != nil {
			return nil, nil, 0, err
		}
		if i > 0 {
			complete, first = append(complete, took.Seconds()*1000), append(first, wrote.Sub(begin).Seconds()*1000)
		}
	}
	return first, complete, (machineCPU() - machine - (ownCPU() - own)) / float64(n) * 1000, nil
}

// firstLine returns when the shard read the first line of a Job's only pod. It asks for the log of the Job: to find the pod
// by its label, the daemon would look at each pod that there is, just before the next Job begins.
func (d *daemon) firstLine(ctx context.Context, name string) (time.Time, error) {
	log, err := d.BatchV1().RESTClient().Get().Namespace("default").Resource("jobs").Name(name).SubResource("log").
		Param("timestamps", "true").Do(ctx).Raw()
	if err != nil {
		return time.Time{}, err
	}
	stamp, _, _ := strings.Cut(string(log), " ")
	return time.Parse(time.RFC3339Nano, stamp)
}

// finishedPods has the simulated runtime end n pods of one Job, which stay, and goes on with the real one.
func (d *daemon) finishedPods(ctx context.Context, n int) error {
	d.Kill()
	flags := d.Flags
	d.Flags = append(append([]string(nil), flags...), "--runtime", "simulated", "--max-pods", "100000")
	if _, err := d.serve(ctx); err != nil {
		return err
	}
	j := job("done", n, 1000, "true")
	j.Spec.Template.Annotations = map[string]string{simulated.Duration: "0s"}
	if _, err := d.run(ctx, j); err != nil {
		return err
	}
	d.Kill()
	d.Flags = flags
	_, err := d.serve(ctx)
	return err
}
