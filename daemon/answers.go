package daemon

import (
	"cmp"

	"github.com/jobd/jobd/daemon/answers"
	"github.com/jobd/jobd/daemon/causes"
)

// asked is where answers come from: those to why, the dashboard and the API, and what notices say.
func (d *daemon) asked(from sources) answers.Sources {
	asked := answers.Sources{
		Store: from.store, Loop: d.control, Logs: from.logs, JobLogs: from.logs, Aside: d.aside, Disk: d.explainDisk, TTL: d.config.TTL(),
	}
	if from.machine.gpus != nil {
		asked.InUse = from.machine.gpus.InUse
	}
	return asked
}

// explainDisk returns why no pods start for want of disk; nil if that is not so.
func (d *daemon) explainDisk() *causes.DiskPressure {
	if d.diskPressure == nil {
		return nil
	}
	s := d.diskPressure.Shortage()
	if !s.On {
		return nil
	}
	return &causes.DiskPressure{
		Path: d.config.Root, What: cmp.Or(s.What, "seen before this start of jobd"), Short: s.Short, Seen: s.Seen, Until: s.Until,
	}
}
