package causes

import (
	"fmt"
	"strings"

	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/prospect"
)

// inUse says, of devices that are short, which of them other programs use: in a few words, and for whoever may know it with the processes.
// Empty: none is used by others.
func (v *podView) inUse(c *why.Cause, s prospect.Shortage) (brief, text string) {
	if s.Used <= 0 || v.InUse == nil {
		return "", ""
	}
	c.Details["inUse."+string(s.Resource)] = fmt.Sprint(s.Used)
	used, looked := v.InUse(s.Resource)
	if !looked {
		return "it is being looked who uses the GPUs", "it is being looked who else uses them, which takes a moment"
	}
	var all []string
	for i := range used {
		all = append(all, outsider(&used[i]))
		if len(used[i].Processes) > 0 {
			c.Details[fmt.Sprintf("pid.%s", used[i].Device)] = fmt.Sprint(used[i].Processes[0].PID)
		}
	}
	if len(all) == 0 {
		return "", ""
	}
	c.Help = append(c.Help, "jobctl top --gpus")
	return all[0], "other programs use " + strings.Join(all, "; ")
}

// outsider says what uses a device: GPU 0: pid 4711 of carol (python), 9 GB, not jobd's.
func outsider(g *gpus.GPU) string {
	var all []string
	for i := range g.Processes {
		if i == shown {
			all = append(all, fmt.Sprintf("%d more", len(g.Processes)-shown))
			break
		}
		all = append(all, g.Processes[i].String())
	}
	if len(all) == 0 {
		return g.Label() + ": a program that is not jobd's"
	}
	return g.Label() + ": " + strings.Join(all, ", ") + ", not jobd's"
}
