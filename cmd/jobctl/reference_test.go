package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jobd/jobd/cmd/internal/manual"
)

var update = flag.Bool("update", false, "write docs/jobctl-flags.md")

// TestReferenceIsUpToDate compares docs/jobctl-flags.md with the flags of our own commands, of which none is hidden. make
// generate writes the page.
func TestReferenceIsUpToDate(t *testing.T) {
	const file = "../../docs/jobctl-flags.md"
	root := tree(t)
	page := manual.Reference(root, isOwn)
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
	for _, flag := range []string{"--socket", "--skip-unknown", "--all-attempts", "--stream", "--prefix"} {
		if !strings.Contains(string(text), flag) {
			t.Errorf("docs/jobctl.md does not speak of %s", flag)
		}
	}
	if !slices.Contains(strings.Fields(page), "submit") {
		t.Error(page)
	}
}
