package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// TestCommandsInProse holds what the docs say between backticks, in sentences and tables, against the commands and flags that there are.
func TestCommandsInProse(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	fenced := regexp.MustCompile("(?ms)^```.*?^```$")
	commands := regexp.MustCompile("`(?:sudo )?(jobctl [^`]+)`")
	words := regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
	for _, page := range append(pages, "../../README.md") {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range commands.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
			line := strings.Join(strings.Fields(found[1]), " ")
			args := words.FindAllString(line, -1)
			if i := slices.IndexFunc(args, func(w string) bool { return strings.Trim(w, `\|&;>`) == "" || w[0] == '>' || w[0] == '<' }); i >= 0 {
				args = args[:i]
			}
			command, rest, err := tree(t).Find(args[1:])
			if err == nil {
				command.InitDefaultHelpFlag()
				err = command.ParseFlags(rest)
			}
			if err != nil && args[1] != "COMMAND" && !strings.HasPrefix(err.Error(), "flag needs an argument") && !errors.Is(err, pflag.ErrHelp) {
				t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
			}
		}
	}
}
