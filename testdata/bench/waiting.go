package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waiting measures the memory of the daemon with separate Jobs that wait for room while others run and never end. Eight clients create
// them as fast as they are answered.
func (b *bench) waiting(ctx context.Context) error {
	n := 50_000
	if b.quick {
		n = 5_000
	}
	b.report.table(fmt.Sprintf("%d separate Jobs that wait while %d pods run, which are simulated", n, inFlight),
		"created", "create p50 ms", "p99 ms", "RssAnon MB", "20 s later", "live heap MB", "kB for each")
	d, err := b.start(ctx, "--runtime", "simulated", "--max-pods", strconv.Itoa(inFlight))
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.allRun(ctx, lasting("running", inFlight)); err != nil {
		return err
	}
	empty, err := d.liveHeap(ctx, "")
	if err != nil {
		return err
	}
	took := make([]float64, n)
	err = byEight(ctx, 0, n, func(ctx context.Context, i int) error {
		j := job(pileName(i), 1, 1, "true")
		j.Spec.CompletionMode = nil
		begin := time.Now()
		_, err := d.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{})
		took[i] = time.Since(begin).Seconds() * 1000
		return err
	})
	if err != nil {
		return err
	}
	busy := d.self().Anon
	time.Sleep(settling)
	rest := d.self().Anon
	heap, err := d.liveHeap(ctx, b.heap)
	if err != nil {
		return err
	}
	b.report.figure("Waiting/RssAnon", []float64{rest}, "MB")
	b.report.figure("Waiting/heap", []float64{heap}, "MB")
	b.report.row(strconv.Itoa(n), fmt.Sprintf("%.0f", median(took)), fmt.Sprintf("%.0f", quantile(took, 0.99)), fmt.Sprintf("%.0f", busy),
		fmt.Sprintf("%.0f", rest), fmt.Sprintf("%.0f", heap), fmt.Sprintf("%.1f", (heap-empty)*1000/float64(n)))
	return nil
}

// liveHeap returns the MB that the daemon's objects take after a collection, and writes a profile of them to a file if one is named.
func (d *daemon) liveHeap(ctx context.Context, file string) (float64, error) {
	body, err := d.Get(ctx, "/debug/pprof/heap?gc=1")
	if err == nil && file != "" {
		err = os.WriteFile(file, body, 0o644)
	}
	if err != nil {
		return 0, err
	}
	bytes, err := d.metric(ctx, "go_gc_heap_live_bytes")
	return bytes / 1e6, err
}
