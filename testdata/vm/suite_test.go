package vm

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// leftOut are the end-to-end tests that the emulated machine does not run, and why.
var leftOut = map[string]string{
	"TestKubectlScript":            "builds a kubectl: there is no Go in the machine",
	"TestDocs":                     "reads the pages, and runs programs that are not in the machine",
	"TestDocsGo":                   "reads a page",
	"TestManifests":                "applies dozens of files at once, whose validation takes clients in the machine too long",
	"TestPi":                       "2000 digits take an emulated processor minutes; no cgroup is about them",
	"TestOracleOnContainers":       "compares times with those of a real cluster",
	"TestEveryFieldOfAPodHasACase": "reads the sources, which are not in the machine, and needs nothing of it",
}

// brief are the tests that TestBriefly runs: those where the kernel matters most.
var brief = []string{
	"TestAppArmorProfile",
	"TestLimitsAreTheContainersCgroup",
	"TestOOMKilledIsToldFromAKill",
}

// TestSuite runs daemon/e2e in the machine, as many tests at a time as -parallel says.
func TestSuite(t *testing.T) {
	m := bootAtLength(t)
	m.suite(func(string) bool { return true })
}

// suite runs those tests of daemon/e2e that are chosen.
func (m *machine) suite(chosen func(name string) bool) {
	t := m.t
	t.Helper()
	program := "cd /opt/src/daemon/e2e && JOBD_E2E=/opt/bin JOBD_E2E_PATIENCE=10m JOBD_E2E_RUNTIME=" + os.Getenv("JOBD_E2E_RUNTIME") + " e2e.test "
	names := strings.Fields(m.sh(program + "-test.list ."))
	var run []string
	for _, name := range names {
		if why, out := leftOut[name]; out {
			t.Logf("left out: %s: %s", name, why)
		} else if chosen(name) {
			run = append(run, name)
		}
	}
	for name := range leftOut {
		if !slices.Contains(names, name) {
			t.Errorf("%s is to be left out, and there is no such test", name)
		}
	}
	t.Logf("%d of %d tests on %s, %s", len(run), len(names), strings.TrimSpace(m.sh("uname -sr")), strings.TrimSpace(m.sh("stat -f -c %T /sys/fs/cgroup")))
	// Each runs in a process of its own, so that it has an end and a result of its own. What it prints is shown if it
	// fails.
	for _, name := range run {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said strings.Builder
			err := m.follow(program+"-test.v -test.timeout 1h -test.run '^"+name+"$'", func(line string) {
				said.WriteString(line)
				if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "--- ") {
					t.Log(trimmed)
				}
			})
			if err != nil {
				t.Errorf("%v\n%s", err, &said)
			} else if strings.Contains(said.String(), "--- SKIP: "+name+" (") { // not one of its parts
				t.Skip(said.String())
			}
		})
	}
}
