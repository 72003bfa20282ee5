package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/runtime/nvidia"
)

// maker makes GPUs that pods get by CDI files.
type maker struct {
	name string
	// kind is that of its devices in CDI files, and in the requests of pods.
	kind string
	// cards is a pattern of files that its driver has for each card, or one for all.
	cards string
	// describes writes a CDI file for the cards that are there.
	describes string
}

var makers = []maker{
	{"NVIDIA", "nvidia.com/gpu", "proc/driver/nvidia/gpus/*", "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"},
	{"AMD", "amd.com/gpu", "dev/kfd", "amd-ctk cdi generate --output=/etc/cdi/amd.json"},
}

// gpus compares the GPUs whose driver is there with the devices that CDI files describe. Without either there is nothing to say.
func gpus(ctx context.Context, p *patient) (string, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(strings.Split(p.wanted.CDISpecDirs, ",")...), cdi.WithAutoRefresh(false))
	if err != nil {
		return "", err
	}
	var described []string
	for _, name := range cache.ListDevices() {
		vendor, class, _ := parser.ParseDevice(name)
		described = append(described, vendor+"/"+class)
	}
	there, lacking := compareGPUs(os.DirFS("/"), described)
	if slices.Contains(described, makers[0].kind) && p.wanted.DevicesInUse == config.DevicesInUseWait {
		lacking = append(lacking, seesUsers(ctx, nvidia.Find(p.wanted.NvidiaSMI))...)
	}
	for _, l := range lacking {
		p.logger.Warn(l.text, helps, l.help)
	}
	return there, nil
}

// lookTime is how long nvidia-smi may take. Without persistence mode it wakes every card up.
const lookTime = 20 * time.Second

// seesUsers says what is lacking for jobd to see who uses the cards of NVIDIA.
func seesUsers(ctx context.Context, smi string) []lack {
	const blind = "nobody sees which of them other programs use: pods get them all the same"
	if smi == "" {
		return []lack{{"there are cards of NVIDIA and no nvidia-smi, so " + blind, "name its path as nvidia-smi in jobd.yaml"}}
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if _, err := nvidia.NewAsker(smi).Ask(ctx); err != nil {
		return []lack{{fmt.Sprintf("there are cards of NVIDIA, and %s: %v", blind, err), smi + " -q"}}
	}
	return nil
}

// compareGPUs returns the kinds of GPUs that pods can request, and what is lacking for others.
func compareGPUs(host fs.FS, described []string) (there string, lacking []lack) {
	var kinds []string
	for _, m := range makers {
		cards, _ := fs.Glob(host, m.cards) // it fails for a bad pattern only
		switch {
		case slices.Contains(described, m.kind):
			kinds = append(kinds, m.kind)
		case len(cards) > 0:
			lacking = append(lacking, lack{
				fmt.Sprintf("there is a card of %s, and no CDI file describes it: pods that request %s wait", m.name, m.kind), "sudo " + m.describes,
			})
		}
	}
	return strings.Join(kinds, ", "), lacking
}
