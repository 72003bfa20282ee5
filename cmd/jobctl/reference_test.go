package main

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jobd/jobd/cmd/internal/reference"
)

var update = flag.Bool("update", false, "write docs/jobctl-flags.md and docs/annotations.md")

// TestReferenceIsUpToDate compares docs/jobctl-flags.md with the flags of our own commands, of which none is hidden. make
// generate writes the page.
func TestReferenceIsUpToDate(t *testing.T) {
	const file = "../../docs/jobctl-flags.md"
	root := tree(t)
	page := reference.Page(root, isOwn)
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != page {
		t.Errorf("%s is stale, run make generate: %v", file, err)
	}
	each(root, func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if isOwn(c) && f.Hidden {
				t.Errorf("%s --%s is hidden", c.CommandPath(), f.Name)
			}
		})
	})
	// Flags that we have added to commands of kubectl are described with these commands.
	text, err := os.ReadFile("../../docs/jobctl.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--socket", "--skip-unknown", "--all-restarts", "--stream", "--prefix"} {
		if !strings.Contains(string(text), flag) {
			t.Errorf("docs/jobctl.md does not speak of %s", flag)
		}
	}
	if !slices.Contains(strings.Fields(page), "submit") {
		t.Error(page)
	}
}

// TestReferenceOfAnnotations compares docs/annotations.md with the annotations that jobd has.
func TestReferenceOfAnnotations(t *testing.T) {
	const file = "../../docs/annotations.md"
	page := reference.Annotations()
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != page {
		t.Errorf("%s is stale, run make generate: %v", file, err)
	}
}

// What explain explains beside kinds needs no server; everything else is kubectl's.
func TestExplainTopics(t *testing.T) {
	jobctl := func(args ...string) (string, int) {
		cmd := exec.Command(os.Args[0], append([]string{"explain"}, args...)...)
		cmd.Env = append(os.Environ(), "JOBCTL_TEST_RUN=1", "HOME="+t.TempDir(), "JOBD_SOCKET=/nonexistent")
		return run(t, cmd, "")
	}
	for topic, want := range map[string]string{"annotations": "\njobd.dev/missed: \"all\"\n  of a CronJob\n", "slurm": "\n  scancel ID, qdel "} {
		if out, code := jobctl(topic); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d, %s", topic, code, out)
		}
	}
	if out, code := jobctl("jobs"); code != 1 || !strings.Contains(out, "/nonexistent") {
		t.Errorf("jobs: %d, %s", code, out)
	}
}
