package gpus

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jobd/jobd/runtime/devices"
	"github.com/jobd/jobd/runtime/nvidia"
)

const (
	// computes is how much memory of a card a program takes that computes there, at least: a context of CUDA is a few hundred MB. Less
	// is what a service has that is always there, such as that of MPS.
	computes = 256 << 20
	// draws is how much a program takes that draws and is worth leaving the card to: a game, or a scene that is rendered. A desktop, with
	// its browser, has the only card of a workstation all the time, and takes less.
	draws = 2 << 30
)

// use is a process that uses a device.
type use struct {
	device string // its name
	nvidia.Process
	nvidia.Owner
}

// instance are the GPU instance and the compute instance of a MIG device; nvidia.Unknown for all.
type instance struct{ gpu, compute int }

// minors reads /proc/driver/nvidia-caps/mig-minors: which MIG device the file /dev/nvidia-caps/nvidia-capN is for.
func minors(text string) map[int]instance {
	found := map[int]instance{}
	for line := range strings.Lines(text) {
		var card, gpu, compute, number int
		if n, _ := fmt.Sscanf(line, "gpu%d/gi%d/ci%d/access %d", &card, &gpu, &compute, &number); n == 4 {
			found[number] = instance{gpu, compute}
		} else if n, _ := fmt.Sscanf(line, "gpu%d/gi%d/access %d", &card, &gpu, &number); n == 3 {
			found[number] = instance{gpu, nvidia.Unknown}
		}
	}
	return found
}

// part is a card, or the part of it, that a device is.
type part struct {
	gpu      *nvidia.GPU
	instance instance
}

// partsOf returns what a device is.
func partsOf(c devices.Card, r *nvidia.Report, caps map[int]instance) (parts []part) {
	at := instance{nvidia.Unknown, nvidia.Unknown}
	for _, number := range c.Capabilities {
		if i, ok := caps[number]; ok && (at.gpu == nvidia.Unknown || i.compute != nvidia.Unknown) {
			at = i
		}
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		minor := g.Minor
		if minor == nvidia.Unknown {
			minor = g.Index
		}
		if slices.Contains(c.Minors, minor) {
			parts = append(parts, part{g, at})
		}
	}
	return parts
}

// has reports whether a process uses a part. One of which the card does not say where it is uses all.
func (p part) has(process *nvidia.Process) bool {
	same := func(a, b int) bool { return a == nvidia.Unknown || b == nvidia.Unknown || a == b }
	return same(p.instance.gpu, process.GPU) && same(p.instance.compute, process.Compute)
}

// usesOf returns who uses the devices, without processes that have ended.
func usesOf(r *nvidia.Report, cards map[string]devices.Card, caps map[int]instance, owner func(pid int) nvidia.Owner) (all []use) {
	owners := map[int]nvidia.Owner{}
	for _, name := range slices.Sorted(maps.Keys(cards)) {
		seen := map[int]int{} // a program that computes and draws may be listed for each
		for _, part := range partsOf(cards[name], r, caps) {
			for i := range part.gpu.Processes {
				p := &part.gpu.Processes[i]
				if !part.has(p) {
					continue
				}
				of, known := owners[p.PID]
				if !known {
					of = owner(p.PID)
					owners[p.PID] = of
				}
				if of.Gone {
					continue
				}
				if at, ok := seen[p.PID]; ok {
					all[at].Memory = max(all[at].Memory, p.Memory)
					all[at].Draws = all[at].Draws || p.Draws
					continue
				}
				seen[p.PID] = len(all)
				all = append(all, use{name, *p, of})
			}
		}
	}
	return all
}

// foreign reports whether a use keeps pods away: by a program that is none of jobd's, and is more than what a machine always runs.
func (u *use) foreign() bool {
	switch {
	case u.Pod != "":
		return false
	case u.Memory == nvidia.Unknown:
		return !u.Draws
	case u.Draws:
		return u.Memory >= draws
	}
	return u.Memory >= computes
}

// program returns the name of a program for people.
func (u *use) program() string {
	name, _, _ := strings.Cut(u.Name, " ")
	if strings.HasPrefix(name, "[") || name == "" { // [Not Found], [Insufficient Permissions]
		return ""
	}
	return path.Base(name)
}

// still returns those of the uses that were seen before whose processes still are the same: what is known as long as nvidia-smi does
// not answer.
func still(uses []use, owner func(pid int) nvidia.Owner) (all []use) {
	for _, u := range uses {
		if now := owner(u.PID); !now.Gone && now.Started == u.Started {
			all = append(all, u)
		}
	}
	return all
}
