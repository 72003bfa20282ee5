package main

import (
	"flag"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jobd/jobd/cmd/internal/reference"
)

var update = flag.Bool("update", false, "write docs/jobd-flags.md")

// TestReferenceIsUpToDate compares docs/jobd-flags.md with the flags of the commands, of which none is hidden. make generate
// writes the page.
func TestReferenceIsUpToDate(t *testing.T) {
	const file = "../../docs/jobd-flags.md"
	root := newCommand()
	page := reference.Page(root, func(c *cobra.Command) bool {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				t.Errorf("%s --%s is hidden", c.CommandPath(), f.Name)
			}
		})
		return !c.Hidden
	})
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != page {
		t.Errorf("%s is stale, run make generate: %v", file, err)
	}
}
