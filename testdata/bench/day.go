package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inFlight is how many pods of the large day run at a time.
const inFlight = 50

// day measures separate Jobs of one container each, created as fast as eight clients can, while those that have been created run; and,
// before them on the same daemon, the pods of one Job.
func (b *bench) day(ctx context.Context) error {
	n, ofOne := 50_000, 2_000
	if b.quick {
		n, ofOne = 2_000, 500
	}
	d, err := b.start(ctx, "--max-pods", strconv.Itoa(inFlight))
	if err != nil {
		return err
	}
	defer d.close()
	self, shards := d.self().CPU, d.shards().CPU
	took, err := d.run(ctx, job("one", ofOne, inFlight, "true"))
	if err != nil {
		return err
	}
	cpu := []string{"a pod of one Job", perEach(d.self().CPU-self, ofOne), perEach(d.shards().CPU-shards, ofOne)}
	if _, err := d.remove(ctx, "one"); err != nil {
		return err
	}
	one := float64(ofOne) / took.Seconds()
	before, err := d.ended(ctx)
	if err != nil {
		return err
	}
	ended := func() (int, error) {
		now, err := d.ended(ctx)
		return now - before, err
	}

	b.report.table(fmt.Sprintf("%d separate Jobs of `true`, created by eight clients while they run, %d pods at a time", n, inFlight),
		"created", "s", "create p50 ms", "p99 ms", "created / s", "ended", "RssAnon MB", "database MB")
	begin, last := time.Now(), time.Now()
	for tenth := range 10 {
		creates, err := d.createEach(ctx, tenth*n/10, (tenth+1)*n/10)
		if err != nil {
			return err
		}
		done, err := ended()
		if err != nil {
			return err
		}
		b.report.row(strconv.Itoa((tenth+1)*n/10), fmt.Sprintf("%.0f", time.Since(begin).Seconds()), fmt.Sprintf("%.0f", median(creates)),
			fmt.Sprintf("%.0f", quantile(creates, 0.99)), fmt.Sprintf("%.0f", float64(n/10)/time.Since(last).Seconds()), strconv.Itoa(done),
			fmt.Sprintf("%.0f", d.self().Anon), d.databaseMB())
		b.report.figure(fmt.Sprintf("Day/create/tenth=%d", tenth+1), creates, "ms")
		last = time.Now()
	}
	waiting, err := d.readAll(ctx, n)
	if err != nil {
		return err
	}
	from, first := time.Now(), 0
	if first, err = ended(); err != nil {
		return err
	}
	most := 0.0
	self, shards = d.self().CPU, d.shards().CPU
	for done := first; ; {
		most = max(most, d.self().Anon)
		if done, err = ended(); err != nil {
			return err
		}
		if done >= n {
			break
		}
		// Often where it may be the end, or the rate would be that of the pause.
		time.Sleep(max(20*time.Millisecond, min(time.Second, time.Duration(n-done)*2*time.Millisecond)))
	}
	rate := float64(n-first) / time.Since(from).Seconds()
	cpuOfEach := []string{"a separate Job", perEach(d.self().CPU-self, n-first), perEach(d.shards().CPU-shards, n-first)}
	all, err := d.readAll(ctx, n)
	if err != nil {
		return err
	}
	time.Sleep(settling)
	rest, size := d.self(), d.databaseMB()
	d.Kill()
	start, err := d.serve(ctx)
	if err != nil {
		return err
	}
	b.report.figure("Day/separate-per-one", []float64{rate / one}, "ratio")
	b.report.table("Once all are created, and once all have ended", "pods of one Job / s", "separate Jobs / s", "ratio", "most RssAnon MB",
		"at rest MB", "database MB", "start ms")
	b.report.row(fmt.Sprintf("%.0f", one), fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.2f", rate/one), fmt.Sprintf("%.0f", most),
		fmt.Sprintf("%.0f", rest.Anon), size, fmt.Sprintf("%.0f", start.Seconds()*1000))
	b.report.table("CPU ms of each", "", "daemon", "shards and all below them")
	b.report.row(cpu...)
	b.report.row(cpuOfEach...)
	b.report.table(fmt.Sprintf("What clients read of %d Jobs, ms", n), "",
		"a page of 500 as a table", "one Job by its label", "all, in such pages", "MB of that")
	b.report.row(append([]string{fmt.Sprintf("while %d wait", n-first)}, waiting...)...)
	b.report.row(append([]string{"all ended"}, all...)...)
	return nil
}

// perEach returns ms of so many seconds.
func perEach(seconds float64, n int) string { return fmt.Sprintf("%.2f", seconds*1000/float64(n)) }

// createEach creates Jobs by eight clients and returns how long each answer took, in ms.
func (d *daemon) createEach(ctx context.Context, from, to int) (ms []float64, err error) {
	ms = make([]float64, to-from)
	return ms, byEight(ctx, from, to, func(ctx context.Context, i int) error {
		j := job(pileName(i), 1, 1, "true")
		j.Labels = map[string]string{"number": strconv.Itoa(i)}
		begin := time.Now()
		_, err := d.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{})
		ms[i-from] = time.Since(begin).Seconds() * 1000
		return err
	})
}

// readAll returns how long a client waits for parts of a list of n Jobs and for the whole in pages, as kubectl reads it, and how large the
// whole is.
func (d *daemon) readAll(ctx context.Context, n int) (cells []string, err error) {
	size := 0
	page := func(query string) (next string, err error) {
		body, err := d.BatchV1().RESTClient().Get().RequestURI("/apis/batch/v1/namespaces/default/jobs?"+query).SetHeader("Accept", tableType).DoRaw(ctx)
		size += len(body)
		var table metav1.Table
		if err == nil {
			err = json.Unmarshal(body, &table)
		}
		return table.Continue, err
	}
	for _, query := range []string{"limit=500", "labelSelector=number%3D" + strconv.Itoa(n/2)} {
		ms, err := timed(5, func(int) error {
			_, err := page(query)
			return err
		})
		if err != nil {
			return nil, err
		}
		cells = append(cells, fmt.Sprintf("%.0f", median(ms)))
	}
	size = 0
	ms, err := timed(1, func(int) error {
		next, err := page("limit=500")
		for err == nil && next != "" {
			next, err = page("limit=500&continue=" + url.QueryEscape(next))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return append(cells, fmt.Sprintf("%.0f", ms[0]), fmt.Sprintf("%.0f", float64(size)/1e6)), nil
}

// ended returns how many Jobs have.
func (d *daemon) ended(ctx context.Context) (int, error) {
	n, err := d.metric(ctx, "job_controller_jobs_finished_total")
	return int(n), err
}

// metric returns the sum of a metric over all its labels.
func (d *daemon) metric(ctx context.Context, name string) (sum float64, err error) {
	body, err := d.BatchV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok && strings.IndexAny(rest, "{ ") == 0 {
			fields := strings.Fields(rest)
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, nil
}
