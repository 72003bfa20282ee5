// Package reference writes the pages of the documentation with the flags of a program, docs/jobd-flags.md and
// docs/jobctl-flags.md, from its commands, and the page of annotations. Tests of the programs call it: they write the pages, and compare them.
package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page returns a page of the documentation, in Markdown, with the flags of commands that have any of their own; which
// commands are chosen by the function. A flag that every command of the program has is listed with the program itself.
func Page(root *cobra.Command, chosen func(*cobra.Command) bool) string {
	var page strings.Builder
	fmt.Fprintf(&page, "# Flags of %s\n\nThis page is generated: `make generate`. `%s COMMAND --help` says more.\n", root.Name(), root.Name())
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		if chosen(c) {
			writeFlags(&page, c)
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(root)
	return page.String()
}

func writeFlags(page *strings.Builder, c *cobra.Command) {
	var flags []*pflag.Flag
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			flags = append(flags, f)
		}
	})
	if len(flags) == 0 {
		return
	}
	slices.SortFunc(flags, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	fmt.Fprintf(page, "\n## %s\n\n%s.\n\n| flag | |\n|---|---|\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."))
	for _, f := range flags {
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		fmt.Fprintf(page, "| %s | %s |\n", name, strings.NewReplacer("|", "\\|", "\n", " ").Replace(f.Usage))
	}
}
