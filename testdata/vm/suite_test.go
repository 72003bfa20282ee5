package vm

import (
	"slices"
	"strings"
	"testing"
)

// leftOut are the end-to-end tests that the emulated machine does not run, and why.
var leftOut = map[string]string{
	"TestKubectlScript":      "builds a kubectl: there is no Go in the machine",
	"TestPi":                 "2000 digits take an emulated processor minutes; no cgroup is about them",
	"TestOracleOnContainers": "compares times with those of a real cluster",
}

// brief are those that `make e2e-vm-short` runs: where the kernel matters most.
var brief = []string{
	"TestLimitsAreTheContainersCgroup",
	"TestOOMKilledIsToldFromAKill",
}

// TestSuite runs daemon/e2e in the machine.
func TestSuite(t *testing.T) {
	m := boot(t, newDisk(t))
	const program = "cd /opt/src/daemon/e2e && JOBD_E2E=/opt/bin JOBD_E2E_PATIENCE=10m e2e.test "
	names := strings.Fields(m.sh(program + "-test.list ."))
	var run []string
	for _, name := range names {
		if why, out := leftOut[name]; out {
			t.Logf("left out: %s: %s", name, why)
		} else if !testing.Short() || slices.Contains(brief, name) {
			run = append(run, name)
		}
	}
	for name := range leftOut {
		if !slices.Contains(names, name) {
			t.Errorf("%s is to be left out, and there is no such test", name)
		}
	}
	t.Logf("%d of %d tests on %s, %s", len(run), len(names), strings.TrimSpace(m.sh("uname -sr")), strings.TrimSpace(m.sh("stat -f -c %T /sys/fs/cgroup")))
	// One at a time, so that a test has an end and a result of its own. What it says is shown if it fails.
	for _, name := range run {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			err := m.follow(program+"-test.v -test.timeout 1h -test.run '^"+name+"$'", func(line string) {
				said.WriteString(line)
				if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "--- ") {
					t.Log(trimmed)
				}
			})
			if err != nil {
				t.Errorf("%v\n%s", err, &said)
			} else if strings.Contains(said.String(), "--- SKIP: "+name) {
				t.Skip(said.String())
			}
		})
	}
}
