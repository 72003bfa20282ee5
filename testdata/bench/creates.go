package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// creates measures how long clients wait for the answer when eight of them create Jobs as fast as they can while 100 pods run; and, in turns
// with that, the disk alone: as many bytes as a commit of the daemon wrote, with its two syncs. Who creates a Job waits for the commit that is
// under way, and then for its own.
func (b *bench) creates(ctx context.Context) error {
	const each = 2000
	b.report.table(fmt.Sprintf("%d Jobs created by eight clients while 100 pods run, and the disk alone", each),
		"create p50 ms", "p99 ms", "created / s", "commits / s", "kB a commit", "CPU ms of the daemon", "disk alone: p50 ms", "p99 ms", "two of them: p99 ms")
	d, err := b.start(ctx, "--max-pods", "100")
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.allRun(ctx, lasting("running", 100)); err != nil {
		return err
	}
	for round := range b.rounds {
		commits, err := d.metric(ctx, "jobd_loop_passes_total")
		if err != nil {
			return err
		}
		written, before, begin := writtenBy(d.PID()), d.self(), time.Now()
		took, err := d.createEach(ctx, round*each, (round+1)*each)
		if err != nil {
			return err
		}
		s, cpu := time.Since(begin).Seconds(), d.self().CPU-before.CPU
		bytes := writtenBy(d.PID()) - written
		after, err := d.metric(ctx, "jobd_loop_passes_total")
		if err != nil {
			return err
		}
		commits = after - commits
		time.Sleep(time.Second) // the daemon is at rest
		raw, err := commitAlone(d.Root, int(commits), int(bytes/commits))
		if err != nil {
			return err
		}
		var two []float64
		for i := range raw[1:] {
			two = append(two, raw[i]+raw[i+1])
		}
		b.report.figure("Creates/create", took, "ms")
		b.report.figure("Creates/disk", raw, "ms")
		b.report.row(fmt.Sprintf("%.0f", median(took)), fmt.Sprintf("%.0f", quantile(took, 0.99)), fmt.Sprintf("%.0f", each/s),
			fmt.Sprintf("%.0f", commits/s), fmt.Sprintf("%.0f", bytes/commits/1000), fmt.Sprintf("%.2f", cpu*1000/each),
			fmt.Sprintf("%.1f", median(raw)), fmt.Sprintf("%.0f", quantile(raw, 0.99)), fmt.Sprintf("%.0f", quantile(two, 0.99)))
	}
	return nil
}

// commitAlone writes what commits would, into a file of a directory, and returns how long each took, in ms.
func commitAlone(dir string, commits, bytes int) (ms []float64, err error) {
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, bytes)
	for i := range commits {
		begin := time.Now()
		for _, w := range []struct {
			at int64
			b  []byte
		}{{int64(4096 + i*bytes), page}, {0, page[:min(4096, bytes)]}} {
			if _, err := f.WriteAt(w.b, w.at); err != nil {
				return nil, err
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				return nil, err
			}
		}
		ms = append(ms, time.Since(begin).Seconds()*1000)
	}
	return ms, nil
}

// writtenBy returns how many bytes a process has sent to disks.
func writtenBy(pid int) (bytes float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			_, _ = fmt.Sscan(n, &bytes)
		}
	}
	return bytes
}
