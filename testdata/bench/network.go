package main

import (
	"context"
	"fmt"
	"strconv"
)

// network compares pods without a network with pods on the bridge, in turns, and with -against those of another build.
func (b *bench) network(ctx context.Context) error {
	type build struct {
		name, bin, mode string
	}
	var builds []build
	for _, mode := range []string{"none", "bridge"} {
		if b.against != "" {
			builds = append(builds, build{mode + ", the other build", b.against, mode})
		}
		builds = append(builds, build{mode, b.bin, mode})
	}
	var daemons []*daemon
	for _, build := range builds {
		d, err := startDaemon(ctx, build.bin, b.disk.Dir, "--network", build.mode)
		if err != nil {
			return err
		}
		defer d.close()
		daemons = append(daemons, d)
	}
	b.report.table(fmt.Sprintf("The network: pods of `true`, Indexed Job of %d (median of %d rounds, min-max)", b.pods, b.rounds),
		"parallel", "network", "pods/s", "CPU ms a pod", "daemon", "shards", "crun and container", "kernel and others")
	for _, parallel := range []int{1, 8} {
		all := make([]cost, len(builds))
		for range b.rounds {
			for i, d := range daemons {
				if err := all[i].measure(ctx, d, b.pods, parallel); err != nil {
					return err
				}
			}
		}
		for i, build := range builds {
			c := all[i]
			b.report.figure(fmt.Sprintf("Network/%s/parallel=%d", build.name, parallel), c.rate, "pods/s")
			ms := func(v []float64) string { return spread(v, "%.1f") }
			b.report.row(strconv.Itoa(parallel), build.name, spread(c.rate, "%.0f"), ms(c.all),
				ms(c.daemon), ms(c.shards), ms(c.containers), ms(c.rest))
		}
	}
	return nil
}

// cost is what the pods of Jobs took, a value for each Job: pods a second, and milliseconds of CPU for each pod.
type cost struct {
	rate, all, daemon, shards, containers, rest []float64
}

func (c *cost) measure(ctx context.Context, d *daemon, pods, parallel int) error {
	self, shards, machine, own := d.self(), d.shards(), machineCPU(), ownCPU()
	took, err := d.run(ctx, job("true", pods, parallel, "true"))
	if err != nil {
		return err
	}
	c.rate = append(c.rate, float64(pods)/took.Seconds())
	if _, err := d.remove(ctx, "true"); err != nil {
		return err
	}
	add := func(to *[]float64, seconds float64) float64 {
		*to = append(*to, seconds/float64(pods)*1000)
		return seconds
	}
	now, inShards := d.self(), d.shards()
	of := add(&c.daemon, now.CPU-self.CPU)
	of += add(&c.shards, inShards.CPU-inShards.Children-(shards.CPU-shards.Children))
	of += add(&c.containers, inShards.Children-shards.Children)
	add(&c.all, of)
	add(&c.rest, machineCPU()-machine-(ownCPU()-own)-of)
	return nil
}
