// Package manual writes the manual pages of a program from its commands, for those who package it.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
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
			return write(root, &doc.GenManHeader{Section: section, Source: root.Name() + " " + root.Version}, args[0])
		},
	}
}

// write makes the page of the program, with a list of its commands, and then one for each of them. The options that all commands
// have are on the first page alone: elsewhere they would come between the reader and the examples.
func write(root *cobra.Command, header *doc.GenManHeader, dir string) error {
	if root.Long == "" {
		root.Long = root.Short
	}
	root.Long += list(root, header.Section)
	page, err := os.Create(filepath.Join(dir, root.Name()+"."+header.Section))
	if err != nil {
		return err
	}
	defer page.Close()
	of := *header
	if err := doc.GenMan(root, &of, page); err != nil {
		return err
	}
	shared := root.PersistentFlags().HasAvailableFlags()
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	for _, c := range root.Commands() {
		if !listed(c) {
			continue
		}
		if shared {
			refer(c, root, header.Section)
		}
		if err := doc.GenManTree(c, header, dir); err != nil {
			return err
		}
	}
	return page.Close()
}

func listed(c *cobra.Command) bool {
	return c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand()
}

// list is the part of the first page that has the commands, by their groups, those of none at the end.
func list(root *cobra.Command, section string) string {
	var b strings.Builder
	b.WriteString("\n\n# COMMANDS\n")
	for _, group := range append(root.Groups(), &cobra.Group{Title: "Others:"}) {
		var lines strings.Builder
		for _, c := range root.Commands() {
			if listed(c) && c.GroupID == group.ID {
				fmt.Fprintf(&lines, "**%s-%s(%s)**\n: %s\n\n", root.Name(), c.Name(), section, c.Short)
			}
		}
		if lines.Len() > 0 && len(root.Groups()) > 0 {
			fmt.Fprintf(&b, "## %s\n", strings.TrimSuffix(group.Title, ":"))
		}
		b.WriteString(lines.String())
	}
	return b.String()
}

// refer says in the pages of a command and of all below it where the options are that all commands have.
func refer(c, root *cobra.Command, section string) {
	if c.Long == "" {
		c.Long = c.Short
	}
	c.Long += fmt.Sprintf("\n\nThe options that all commands have are in **%s(%s)**.", root.Name(), section)
	for _, sub := range c.Commands() {
		refer(sub, root, section)
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
