package main

import (
	"io"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/api/annotations"
	"github.com/jobd/jobd/cmd/internal/batchscript"
)

// topics are what "explain" explains beside the fields of kinds. No kind has such a name.
var topics = map[string]func(io.Writer) error{
	"annotations": annotations.Explain,
	"slurm":       batchscript.Explain,
}

// extendExplain lets "explain" explain the topics, for which it needs no server.
func extendExplain(root *cobra.Command, out io.Writer) {
	explain, _, err := root.Find([]string{"explain"})
	if err != nil || explain.Name() != "explain" {
		return
	}
	explain.Example += "\n\n  # What the annotations are that jobd reads\n  jobctl explain annotations" +
		"\n\n  # What commands, options, states and variables of Slurm and PBS are here\n  jobctl explain slurm"
	kubectls := explain.Run
	explain.Run = func(cmd *cobra.Command, args []string) {
		if len(args) == 1 && topics[args[0]] != nil {
			cmdutil.CheckErr(topics[args[0]](out))
			return
		}
		kubectls(cmd, args)
	}
}
