package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
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
func gpus(_ context.Context, p *patient) (string, error) {
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
	for _, l := range lacking {
		p.logger.Warn(l.text, helps, l.help)
	}
	return there, nil
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
