package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/runtime/cgroup"
)

func TestWeightsOfPods(t *testing.T) {
	for content, want := range map[string]string{
		"pods-cpu-weight: idle\npods-io-weight: 200": "",
		"pods-cpu-weight: \"50\"":                    "",
		"pods-cpu-weight: 0":                         `pods-cpu-weight: "0" is neither idle nor a number from 1 to 10000`,
		"pods-io-weight: 1.5":                        `pods-io-weight: "1.5" is neither idle nor a number from 1 to 10000`,
		"pods-io-weight: [1]":                        "pods-io-weight: json: cannot unmarshal array",
	} {
		path := filepath.Join(t.TempDir(), "jobd.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Default()
		err := c.ReadFile(path)
		if err == nil {
			err = c.Complete()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", content, err, want)
		}
	}
	c := Default()
	c.PodsCPUWeight, c.PodsIOWeight = "idle", "7"
	if cpu, io, err := c.PodsWeights(); err != nil || cpu != (cgroup.Weight{Idle: true}) || io != (cgroup.Weight{Value: 7}) {
		t.Errorf("%+v %+v %v", cpu, io, err)
	}
}
