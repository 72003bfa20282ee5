package daemon

import (
	"cmp"

	"github.com/jobd/jobd/daemon/answers"
	"github.com/jobd/jobd/daemon/causes"
)

// asked is where answers come from: those to why, the dashboard and the API, and what notices say.
func (d *daemon) asked(from sources) answers.Sources {
	asked := answers.Sources{
		Store: from.store, Loop: d.control, Logs: from.logs, JobLogs: from.logs, Aside: d.aside, Pressed: d.pressed, TTL: d.config.TTL(),
	}
	if from.machine.gpus != nil {
		asked.InUse = from.machine.gpus.InUse
	}
	return asked
}

// pressed returns why no pods start for want of disk or memory, by the taints that keep them away.
func (d *daemon) pressed() map[string]causes.Pressure {
	all := map[string]causes.Pressure{}
	for taint, w := range d.pressures {
		if s := w.Shortage(); s.On {
			all[taint] = causes.Pressure{
				Path: d.config.Root, What: cmp.Or(s.What, "seen before this start of jobd"), Short: s.Short, Seen: s.Seen, Until: s.Until,
			}
		}
	}
	return all
}
