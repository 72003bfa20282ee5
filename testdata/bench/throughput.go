package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jobd/jobd/testdata/rig"
)

// throughput compares pods of `true` with crun in turns, both on one disk: jobd's pods without a network, which have a network
// namespace of their own like a raw container, those on the bridge, and those whose root directory is on the machine's disk.
func (b *bench) throughput(ctx context.Context) error {
	if !slices.Contains(b.raw.runtimes, "crun") {
		return fmt.Errorf("not without crun")
	}
	machine, err := rig.NewDisk(ctx, "machine")
	if err != nil {
		return err
	}
	defer machine.Remove()
	places := []place{
		{name: "jobd", disk: b.disk, flags: []string{"--network", "none"}},
		{name: "bridge", disk: b.disk, flags: []string{"--network", "bridge"}},
		{name: "machine", disk: machine, flags: []string{"--network", "none"}},
	}
	if b.crun != "" {
		places = append(places,
			place{name: "crun-jobd", disk: b.disk, flags: []string{"--network", "none", "--oci-runtime", b.crun}},
			place{name: "crun-bridge", disk: b.disk, flags: []string{"--network", "bridge", "--oci-runtime", b.crun}})
	}
	for i := range places {
		p := &places[i]
		if p.daemon, err = startDaemon(ctx, b.bin, p.disk.Dir, p.flags...); err != nil {
			return err
		}
		defer p.daemon.close()
	}
	crunSpec, err := newPeer(ctx, b.raw, places[0].daemon)
	if err != nil {
		return err
	}
	defer crunSpec.close()
	parallels := b.parallels
	measured := map[int]figures{}
	for _, parallel := range parallels {
		f := figures{}
		measured[parallel] = f
		for round := 0; round < b.rounds || round < b.most && !f.settled(); round++ {
			perSecond, err := b.raw.containers(ctx, "crun", 200, min(parallel, 8))
			if err != nil {
				return err
			}
			f.add("crun", perSecond)
			perSecond, cpu, err := crunSpec.containers(ctx, 200, min(parallel, 8))
			if err != nil {
				return fmt.Errorf("crun with jobd's spec: %w", err)
			}
			f.add("spec", perSecond)
			f.add("spec-cpu", cpu)
			for _, p := range places {
				if err := f.measure(ctx, p.name, p.daemon, b.pods, parallel); err != nil {
					return err
				}
			}
		}
		for _, p := range places {
			f[p.name+"/crun"], f[p.name+"/spec"] = f[p.name].per(f["crun"]), f[p.name].per(f["spec"])
		}
	}
	b.report.table(fmt.Sprintf("Pods of `true` per second, Indexed Job of %d", b.pods),
		"parallel", "crun run", "crun run, jobd's spec", "jobd", "/ crun", "/ crun, jobd's spec", "bridge", "/ crun", "/ crun, jobd's spec",
		"machine's disk", "/ crun", "rounds")
	for _, parallel := range parallels {
		f := measured[parallel]
		row := f.cells(b.report, parallel, "crun", "spec", "jobd", "jobd/crun", "jobd/spec", "bridge", "bridge/crun", "bridge/spec", "machine", "machine/crun")
		b.report.row(append(row, strconv.Itoa(len(f["crun"])))...)
	}
	b.report.table("CPU ms of such a pod", "parallel", "crun with jobd's spec", "jobd, all", "daemon", "shards", "crun and container", "kernel and others",
		"bridge, all", "daemon", "shards", "crun and container", "kernel and others")
	for _, parallel := range parallels {
		b.report.row(append(measured[parallel].cells(b.report, parallel, "spec-cpu"), measured[parallel].costs(b.report, parallel, "jobd", "bridge")...)...)
	}
	if b.crun == "" {
		return nil
	}
	b.report.table("The same where jobd uses "+b.crun, "parallel", "jobd", "/ crun", "/ crun, jobd's spec", "bridge", "/ crun", "/ crun, jobd's spec")
	for _, parallel := range parallels {
		b.report.row(measured[parallel].cells(
			b.report, parallel, "crun-jobd", "crun-jobd/crun", "crun-jobd/spec", "crun-bridge", "crun-bridge/crun",
			"crun-bridge/spec",
		)...)
	}
	b.report.table("CPU ms of such a pod", "parallel", "jobd, all", "daemon", "shards", "crun and container", "kernel and others",
		"bridge, all", "daemon", "shards", "crun and container", "kernel and others")
	for _, parallel := range parallels {
		b.report.row(append([]string{strconv.Itoa(parallel)}, measured[parallel].costs(b.report, parallel, "crun-jobd", "crun-bridge")...)...)
	}
	return nil
}

// cells begins a row: how many pods are run at a time, and figures by name.
func (f figures) cells(r *report, parallel int, names ...string) []string {
	row := []string{strconv.Itoa(parallel)}
	for _, name := range names {
		format, unit := "%.0f", "pods/s"
		switch {
		case strings.Contains(name, "/"):
			format, unit = "%.2f", "ratio"
		case strings.HasSuffix(name, "-cpu"):
			format, unit = "%.1f", "ms/pod"
		}
		row = append(row, f[name].cell(format))
		r.figure(fmt.Sprintf("Throughput/%s/parallel=%d", name, parallel), f[name], unit)
	}
	return row
}

// costs returns where the CPU time of a pod goes at each of those places.
func (f figures) costs(r *report, parallel int, places ...string) (row []string) {
	for _, name := range places {
		for _, of := range parts {
			row = append(row, f[name+of].cell("%.1f"))
			r.figure(fmt.Sprintf("CPU/%s%s/parallel=%d", name, of, parallel), f[name+of], "ms/pod")
		}
	}
	return row
}

// place is a daemon whose pods are measured.
type place struct {
	name   string
	disk   *rig.Disk
	flags  []string
	daemon *daemon
}

// figures are those of the rounds, by name.
type figures map[string]series

func (f figures) add(name string, value float64) { f[name] = append(f[name], value) }

// parts is where the CPU time of pods goes, all of it first.
var parts = []string{"-all", "-daemon", "-shards", "-containers", "-rest"}

// measure runs a Job of n pods of `true`.
func (f figures) measure(ctx context.Context, name string, d *daemon, n, parallel int) error {
	var c cost
	if err := c.measure(ctx, d, n, parallel); err != nil {
		return err
	}
	f.add(name, c.rate[0])
	for i, v := range [][]float64{{c.all[0] + c.rest[0]}, c.daemon, c.shards, c.containers, c.rest} {
		f.add(name+parts[i], v[0])
	}
	return nil
}

// settled reports whether all ratios to crun in the same round are known to 10 %.
func (f figures) settled() bool {
	for _, name := range []string{"jobd", "bridge", "machine"} {
		for _, to := range []string{"crun", "spec"} {
			if !f[name].per(f[to]).settled() {
				return false
			}
		}
	}
	return true
}

// peers measures what else runs containers, and the floor of all of them: a process.
func (b *bench) peers(ctx context.Context) error {
	if err := b.raw.startContainerd(ctx, b.disk.Dir); err != nil {
		return err
	}
	pod, err := newPodman(ctx, b.disk.Dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "without podman:", err)
	}
	defer pod.close()
	run := map[string]func(parallel int) (float64, error){
		"1 fork and exec": func(parallel int) (float64, error) { return b.raw.forkExec(ctx, parallel) },
	}
	for _, name := range b.raw.runtimes {
		run["2 "+name+" run"] = func(parallel int) (float64, error) { return b.raw.containers(ctx, name, 200, parallel) }
	}
	if b.raw.containerd != nil {
		run["3 ctr run"] = func(parallel int) (float64, error) { return b.raw.ctrRun(ctx, 10*parallel, parallel) }
	}
	if pod != nil {
		run["4 podman run"] = func(parallel int) (float64, error) { return pod.containers(ctx, 10*parallel, parallel) }
	}
	parallels := []int{1, 2, 4, 8}
	columns := []string{"what"}
	for _, parallel := range parallels {
		columns = append(columns, fmt.Sprintf("parallel %d", parallel))
	}
	b.report.table("Processes and containers of `true` per second, without jobd", columns...)
	for _, name := range slices.Sorted(maps.Keys(run)) {
		row := []string{name[2:]}
		for _, parallel := range parallels {
			var s series
			for range b.rounds {
				v, err := run[name](parallel)
				if err != nil {
					return err
				}
				s = append(s, v)
			}
			b.report.figure(fmt.Sprintf("Peers/%s/parallel=%d", name[2:], parallel), s, "runs/s")
			row = append(row, s.cell("%.0f"))
		}
		b.report.row(row...)
	}
	return nil
}
