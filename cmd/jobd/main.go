// Command jobd is the daemon, and the commands that look after its data: serve, clean, db, config, doctor and version; run, which is a daemon
// for one Job; and forward, which runs Jobs in a cluster. Flags and a settings file come in as a config.Config or forward.Options; the work is
// done by packages daemon, daemon/maintenance, daemon/ephemeral and forward, and what is printed is for people and scripts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/jobd/jobd/cmd/internal/manual"
	"github.com/jobd/jobd/internal/printable"
)

// version is stamped by the Makefile.
var version = "v0.0.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second one ends the process at once
	if err := newCommand().ExecuteContext(ctx); err != nil {
		if code := exitError(0); errors.As(err, &code) {
			os.Exit(int(code))
		}
		fmt.Fprintln(os.Stderr, "jobd:", printable.Text(err.Error()))
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "jobd",
		Short:         "Kubernetes Jobs without Kubernetes",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          help,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		newServeCommand(), newRunCommand(), newForwardCommand(), newCleanCommand(), newDBCommand(), newConfigCommand(), newDoctorCommand(),
		newDebugCommand(), newVersionCommand(), manual.Command("8"),
	)
	return root
}

// help runs a command that only has subcommands, so that an unknown one is an error.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }
