package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPagesAndCompletions writes the manual pages and completions as a release does: one page for each command that is not
// hidden, and what each shell reads.
func TestPagesAndCompletions(t *testing.T) {
	dir := t.TempDir()
	root := newCommand()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		page := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".8")
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
	for _, shell := range []string{"bash", "zsh", "fish"} {
		root, out := newCommand(), &bytes.Buffer{}
		root.SetOut(out)
		root.SetArgs([]string{"completion", shell})
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), "__complete") {
			t.Errorf("completion for %s: %v, %d bytes", shell, err, out.Len())
		}
	}
}
