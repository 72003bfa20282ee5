package main

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/utils/ptr"
)

// users compares pods with users of their own (hostUsers: false) with pods with the host's, in turns.
func (b *bench) users(ctx context.Context) error {
	d, err := b.start(ctx, "--network", "bridge")
	if err != nil {
		return err
	}
	defer d.close()
	b.report.table(fmt.Sprintf("Users of their own: pods of `true` on the bridge, Indexed Job of %d (median of %d rounds, min-max)", b.pods, b.rounds),
		"parallel", "host's users, pods/s", "own users, pods/s", "ratio", "host's: CPU ms a pod", "of the daemon", "own: CPU ms a pod", "of the daemon")
	for _, parallel := range []int{1, 8} {
		figures := map[string][]float64{}
		for range b.rounds {
			for name, hostUsers := range map[string]bool{"host": true, "own": false} {
				j := job("true", b.pods, parallel, "true")
				j.Spec.Template.Spec.HostUsers = ptr.To(hostUsers)
				self, machine, own := d.self(), machineCPU(), ownCPU()
				took, err := d.run(ctx, j)
				if err != nil {
					return err
				}
				figures[name] = append(figures[name], float64(b.pods)/took.Seconds())
				all, inDaemon := machineCPU()-machine-(ownCPU()-own), d.self().CPU-self.CPU
				figures[name+"-cpu"] = append(figures[name+"-cpu"], all/float64(b.pods)*1000)
				figures[name+"-daemon"] = append(figures[name+"-daemon"], inDaemon/float64(b.pods)*1000)
				if _, err := d.remove(ctx, "true"); err != nil {
					return err
				}
			}
		}
		for _, name := range []string{"host", "own"} {
			b.report.figure(fmt.Sprintf("Users/%s/parallel=%d", name, parallel), figures[name], "pods/s")
		}
		cpu := func(name string) string { return fmt.Sprintf("%.1f", median(figures[name])) }
		b.report.row(strconv.Itoa(parallel), spread(figures["host"], "%.0f"), spread(figures["own"], "%.0f"),
			fmt.Sprintf("%.2f", median(figures["own"])/median(figures["host"])),
			cpu("host-cpu"), cpu("host-daemon"), cpu("own-cpu"), cpu("own-daemon"))
	}
	return nil
}
