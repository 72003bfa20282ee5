package daemon

import (
	"errors"
	"log/slog"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
)

// weighPods gives the control group of all pods its shares of the processors and disks beside everything else on the machine. A
// host that has none goes without, and says so.
func weighPods(c *config.Config, logger *slog.Logger) error {
	cpu, io, err := c.PodsWeights()
	if err != nil {
		return err
	}
	hierarchies, err := cgroup.Find()
	if err != nil {
		return err
	}
	group := runtime.CgroupParent(c.Root)
	for _, w := range []struct {
		setting string
		value   config.WeightText
		err     error
	}{
		{"pods-cpu-weight", c.PodsCPUWeight, hierarchies.WeighCPU(group, cpu)},
		{"pods-io-weight", c.PodsIOWeight, hierarchies.WeighIO(group, io)},
	} {
		switch {
		case w.err == nil:
		case errors.Is(w.err, cgroup.ErrNoWeight):
			logger.Warn("a weight of pods has no effect, since this host has none of the kind", "setting", w.setting, "value", w.value)
		default:
			logger.Warn("cannot set a weight of pods", "setting", w.setting, "value", w.value, "error", w.err)
		}
	}
	return nil
}
