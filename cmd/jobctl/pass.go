package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/cmd/internal/overssh"
)

// newPassCommand makes the command that a jobctl on another machine runs here by ssh, where ssh cannot forward the socket.
func newPassCommand(dial dialFunc, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:    "pass",
		Short:  "Pass on what comes through the standard input to jobd's socket, for a jobctl that came by ssh",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			c, err := dial(context.Background())
			cmdutil.CheckErr(err)
			cmdutil.CheckErr(overssh.Pass(c, streams.In, streams.Out))
		},
	}
}
