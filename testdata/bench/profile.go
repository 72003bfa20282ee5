package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// profile shows what happens while eight pods of `true` at a time run without a network: with -perf where the processors spend
// their time, with -strace which system calls the daemon and its shards make.
func (b *bench) profile(ctx context.Context) error {
	if !b.perf && !b.strace {
		return nil
	}
	d, err := b.start(ctx, "--network", "none")
	if err != nil {
		return err
	}
	defer d.close()
	pods := func() error {
		if _, err := d.run(ctx, job("true", b.pods, 8, "true")); err != nil {
			return err
		}
		_, err := d.remove(ctx, "true")
		return err
	}
	if err := pods(); err != nil { // which warms up
		return err
	}
	if b.perf {
		if err := b.perfOf(ctx, d, pods); err != nil {
			return err
		}
	}
	if b.strace {
		return b.straceOf(ctx, d, pods)
	}
	return nil
}

func (b *bench) perfOf(ctx context.Context, d *daemon, pods func() error) error {
	data := filepath.Join(d.Root, "perf.data")
	record := exec.CommandContext(ctx, "perf", "record", "-q", "-a", "-F", "999", "-e", "cpu-clock", "-o", data)
	if err := record.Start(); err != nil {
		return fmt.Errorf("apt install linux-perf: %w", err)
	}
	err := pods()
	_ = record.Process.Signal(os.Interrupt)
	_ = record.Wait()
	if err != nil {
		return err
	}
	for _, by := range []struct{ title, keys, percent string }{
		{"Processes", "comm", "0.5"}, {"Functions of the kernel, and programs", "comm,dso,sym", "0.7"},
	} {
		out, err := exec.CommandContext(ctx, "perf", "report", "-i", data, "--stdio", "-q", "--sort", by.keys,
			"--percent-limit", by.percent, "-w", "0", "-t", ";").Output()
		if err != nil {
			return fmt.Errorf("perf report: %w", err)
		}
		b.report.table(by.title+", where perf sees the processors' time", "%", "of")
		var crun float64
		for line := range strings.Lines(string(out)) {
			share, of, found := strings.Cut(strings.TrimSpace(line), ";")
			fields := strings.Fields(strings.ReplaceAll(of, ";", " "))
			if _, err := strconv.Atoi(of); found && err == nil { // jobd runs it by a descriptor, whose number is then its name
				percent, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(share), "%"), 64)
				crun += percent
				continue
			}
			// A program without symbols has one line for each address: only what the kernel does for it is told apart.
			if found && !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "0x") || f == "swapper" }) {
				b.report.row(strings.TrimSuffix(strings.TrimSpace(share), "%"), strings.Join(fields, " "))
			}
		}
		if crun > 0 {
			b.report.row(fmt.Sprintf("%.2f", crun), "crun")
		}
	}
	return nil
}

// straceOf attaches to the threads that are there: what containers do themselves is left out.
func (b *bench) straceOf(ctx context.Context, d *daemon, pods func() error) error {
	b.report.table("System calls of a pod", "process", "all", "the most frequent")
	for _, of := range []struct {
		name string
		pids []int
	}{{"daemon", []int{d.PID()}}, {"shards", d.Shards()}} {
		out := filepath.Join(d.Root, "strace")
		args := []string{"-c", "-S", "calls", "-U", "calls,name", "-o", out}
		for _, pid := range of.pids {
			tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
			for _, task := range tasks {
				args = append(args, "-p", task.Name())
			}
		}
		trace := exec.CommandContext(ctx, "strace", args...)
		var said bytes.Buffer
		trace.Stderr = &said
		if err := trace.Start(); err != nil {
			return fmt.Errorf("apt install strace: %w", err)
		}
		time.Sleep(time.Second) // it attaches
		err := pods()
		_ = trace.Process.Signal(os.Interrupt)
		_ = trace.Wait()
		if err != nil {
			return errors.Join(err, errors.New(said.String()))
		}
		counts, err := os.Open(out)
		if err != nil {
			return err
		}
		var all float64
		var most []string
		for lines := bufio.NewScanner(counts); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 2 {
				continue
			}
			n, err := strconv.ParseFloat(fields[0], 64)
			if err != nil {
				continue
			}
			n /= float64(b.pods)
			if fields[1] == "total" {
				all = n
			} else if len(most) < 20 {
				most = append(most, fmt.Sprintf("%s %.1f", fields[1], n))
			}
		}
		counts.Close()
		b.report.figure("SystemCalls/"+of.name, []float64{all}, "calls/pod")
		b.report.row(of.name, fmt.Sprintf("%.0f", all), strings.Join(most, ", "))
	}
	return nil
}
