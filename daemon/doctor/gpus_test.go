package doctor

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jobd/jobd/runtime/nvidia/nvidiatest"
)

// TestGPUs: a card that no CDI file describes is of no use to pods, and the command that describes it is named.
func TestGPUs(t *testing.T) {
	nvidia := fstest.MapFS{"proc/driver/nvidia/gpus/0000:07:00.0/information": {}}
	amd := fstest.MapFS{"dev/kfd": {}}
	for name, c := range map[string]struct {
		host      fstest.MapFS
		described []string
		there     string
		help      string
	}{
		"none":                        {fstest.MapFS{"proc/driver/nvidia/version": {}}, nil, "", ""},
		"of NVIDIA":                   {nvidia, nil, "", "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"},
		"of NVIDIA, described":        {nvidia, []string{"nvidia.com/gpu", "nvidia.com/gpu"}, "nvidia.com/gpu", ""},
		"of NVIDIA, and another is":   {nvidia, []string{"vendor.com/net"}, "", "nvidia-ctk"},
		"of AMD":                      {amd, nil, "", "sudo amd-ctk cdi generate --output=/etc/cdi/amd.json"},
		"described, without a driver": {fstest.MapFS{}, []string{"amd.com/gpu"}, "amd.com/gpu", ""},
		"other devices are no GPUs":   {fstest.MapFS{}, []string{"vendor.com/net"}, "", ""},
	} {
		there, lacking := compareGPUs(c.host, c.described)
		help := ""
		for _, l := range lacking {
			help += l.help
		}
		if there != c.there || (help == "") != (c.help == "") || !strings.Contains(help, c.help) {
			t.Errorf("%s: %q and %+v", name, there, lacking)
		}
	}
}

// TestSeesUsers: what keeps jobd from seeing who uses the cards is told.
func TestSeesUsers(t *testing.T) {
	smi := nvidiatest.New(t, 1)
	if lacking := seesUsers(t.Context(), smi.Path); len(lacking) > 0 {
		t.Errorf("%+v", lacking)
	}
	smi.Fail(18, "Failed to initialize NVML: Driver/library version mismatch")
	if lacking := seesUsers(t.Context(), smi.Path); len(lacking) != 1 || !strings.Contains(lacking[0].text, "version mismatch") {
		t.Errorf("%+v", lacking)
	}
	if lacking := seesUsers(t.Context(), ""); len(lacking) != 1 {
		t.Errorf("%+v", lacking)
	}
}

// TestEachLackHasItsOwnHelp: what to do is no part of the text, which has an arrow of its own.
func TestEachLackHasItsOwnHelp(t *testing.T) {
	c := &collector{}
	t.Setenv("PATH", "")
	if _, err := programs(context.Background(), &patient{logger: slog.New(c)}); err != nil {
		t.Fatal(err)
	}
	for _, l := range c.take() {
		if !strings.HasPrefix(l.help, "apt install ") || strings.Contains(l.text, "apt") {
			t.Errorf("%+v", l)
		}
	}
}
