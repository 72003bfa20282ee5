// Package manual writes the manual pages of a program from its commands, for those who package it.
package manual

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"k8s.io/client-go/util/homedir"
)

// Command returns the hidden command "man DIRECTORY", which writes a page for each command of the tree that it is part of.
// The section is that of the manual: "1" for everybody's commands, "8" for administrators'. $SOURCE_DATE_EPOCH is the pages'
// date, where it is set.
func Command(section string) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the manual pages of this program to a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			anybodys(root, homedir.HomeDir())
			return doc.GenManTree(root, &doc.GenManHeader{
				Section: section, Source: root.Name() + " " + root.Version,
			}, args[0])
		},
	}
}

// anybodys replaces the home directory in the defaults of flags by ~, so that the pages are the same wherever they are
// made.
func anybodys(c *cobra.Command, home string) {
	if home = strings.TrimSuffix(home, "/"); home == "" {
		return
	}
	replace := func(f *pflag.Flag) {
		if rest, ok := strings.CutPrefix(f.DefValue, home+"/"); ok {
			f.DefValue = "~/" + rest
		}
	}
	c.PersistentFlags().VisitAll(replace)
	c.Flags().VisitAll(replace)
	for _, sub := range c.Commands() {
		anybodys(sub, home)
	}
}
