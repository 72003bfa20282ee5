package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPages writes the manual pages as a release does: one for each command that is not hidden.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	root := tree(t)
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		page := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		if info, err := os.Stat(page); err != nil || info.Size() == 0 {
			t.Errorf("no page for %s: %v", c.CommandPath(), err)
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				check(sub)
			}
		}
	}
	check(root)
}
