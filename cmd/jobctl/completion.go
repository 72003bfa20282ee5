package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/jobd/jobd/submit/progress"
)

// flagValues are the values that flags may have, by command and flag; of all commands with the flag if none is named.
var flagValues = map[string][]string{
	"--progress":                 {progress.Auto, "plain", "tty", "quiet", "json"},
	"--on-interrupt":             {"ask", "detach", "delete"},
	"--on-start-error":           {"wait", "fail"},
	"--pull":                     {"always", "missing", "never"},
	"--stream":                   {"stdout", "stderr"},
	"jobctl submit --output":     {"yaml", "json", "name"},
	"jobctl why --output":        {"json", "yaml"},
	"jobctl history --output":    {"json"},
	"jobctl simulate --output":   {"json"},
	"jobctl image list --output": {"json", "wide"},
	"jobctl kubeconfig --role":   {"read", "submit", "admin"},
}

// completeValues adds to the commands what a shell offers for flags, and for arguments, that kubectl does not complete.
func completeValues(root *cobra.Command, f cmdutil.Factory) {
	register := func(c *cobra.Command, flag string, fn cobra.CompletionFunc) {
		if c.Flags().Lookup(flag) == nil {
			return
		}
		if _, exists := c.GetFlagCompletionFunc(flag); !exists {
			_ = c.RegisterFlagCompletionFunc(flag, fn) // it only fails for what was just checked
		}
	}
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		for key, values := range flagValues {
			of, flag, _ := strings.Cut(key, "--")
			if of = strings.TrimSpace(of); of == "" || of == c.CommandPath() {
				register(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	for _, c := range root.Commands() {
		switch c.Name() {
		case "simulate":
			register(c, "from", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				var jobs []string
				for _, name := range completion.CompGetResource(f, "jobs", strings.TrimPrefix(typed, "jobs/")) {
					jobs = append(jobs, "jobs/"+name)
				}
				return jobs, cobra.ShellCompDirectiveNoFileComp
			})
		case "kubeconfig":
			register(c, "namespace", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return completion.CompGetResource(f, "namespaces", typed), cobra.ShellCompDirectiveNoFileComp
			})
		case "wait":
			register(c, "for", cobra.FixedCompletions([]string{finished, "condition=", "jsonpath=", "create", "delete"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
			if c.ValidArgsFunction == nil {
				c.ValidArgsFunction = completion.ResourceTypeAndNameCompletionFunc(f)
			}
		case "history":
			if c.ValidArgsFunction == nil {
				c.ValidArgsFunction = completion.SpecifiedResourceTypeAndNameCompletionFunc(f, []string{"jobs", "cronjobs"})
			}
		}
		if slices.Contains(ownVerbs, c.Name()) || c.Name() == "logs" {
			each(c)
		}
	}
}
