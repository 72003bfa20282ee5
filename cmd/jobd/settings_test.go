package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/jobd/jobd/daemon/config"
)

// The jobd of the machine has the settings of the machine, however it is started: without those of the package, members of the group jobd
// would be as good as root.
func TestConfigOfTheMachine(t *testing.T) {
	for _, c := range []struct {
		named          string
		ofRoot, exists bool
		want           string
	}{
		{"", false, true, machineConfig},
		{"", false, false, ""},
		{"", true, true, ""}, // another jobd
		{"/a.yaml", false, true, "/a.yaml"},
		{"/a.yaml", true, true, "/a.yaml"},
		{"/a.yaml", false, false, "/a.yaml"}, // an error when it is read, not the defaults
	} {
		if got := configFile(c.named, c.ofRoot, c.exists); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestFlagsWinOverTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.yaml")
	if err := os.WriteFile(path, []byte("root: /r\nstate: /s\nmax-pods: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, flags, file := config.Default(), pflag.NewFlagSet("", pflag.ContinueOnError), ""
	settings.AddFlags(flags)
	addConfig(flags, &file, "")
	if err := flags.Parse([]string{"--config", path, "--root", "/mine"}); err != nil {
		t.Fatal(err)
	}
	if err := readConfig(file, &settings, flags); err != nil {
		t.Fatal(err)
	}
	if settings.Root != "/mine" || settings.State != "/s" || settings.MaxPods != 7 {
		t.Errorf("root %s, state %s, %d pods", settings.Root, settings.State, settings.MaxPods)
	}
}
