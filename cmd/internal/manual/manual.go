// Package manual writes the manual pages of a program from its commands, for those who package it.
package manual

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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
			return doc.GenManTree(root, &doc.GenManHeader{
				Section: section, Source: root.Name() + " " + root.Version,
			}, args[0])
		},
	}
}
