package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/jobd/jobd/daemon"
	"github.com/jobd/jobd/daemon/config"
)

func newServeCommand() *cobra.Command {
	settings, file := config.Default(), ""
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: accept Jobs on the socket and run their pods",
		Long: `Run the daemon: accept Jobs on the socket and run their pods.

Every flag can also be set in a YAML file, under the flag's name; the command line wins. The jobd of the machine, which is the
one without --root, reads /etc/jobd/jobd.yaml if that exists and --config names no other one.
SIGTERM stops the daemon and leaves the containers running: the next jobd of the same --root picks them up again.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	settings.AddFlags(flags)
	addConfig(flags, &file, "YAML file with these settings")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		tell := systemd()
		settings.Alive = systemdWatchdog(tell)
		settings.Extend = func(d time.Duration) { _ = tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds())) }
		if err := readConfig(file, &settings, flags); err != nil {
			return err
		}
		logger, err := newLogger(os.Stderr, settings.LogLevel)
		if err != nil {
			return err
		}
		settings.Logger, settings.Version = logger, version
		giveHeadroom()
		return daemon.Run(cmd.Context(), settings, func(s daemon.Serving) {
			announce(cmd.OutOrStdout(), s)
			if err := tell("READY=1"); err != nil {
				logger.Warn("cannot report to systemd that jobd is ready", "error", err)
			}
		})
	}
	return cmd
}

func newLogger(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log-level: %q is not one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	if os.Getenv("JOURNAL_STREAM") != "" {
		// systemd adds timestamps of its own.
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}

// announce prints for people what is served and where everything is.
func announce(w io.Writer, s daemon.Serving) {
	fmt.Fprintf(w, "jobd %s is ready after %v\n", s.Version, s.After)
	fmt.Fprintf(w, "  socket      %s\n", s.Socket)
	if s.UsersSocket != "" {
		fmt.Fprintf(w, "  users       %s\n", s.UsersSocket)
	}
	if s.Listen != "" {
		words := "kubeconfig: " + s.Kubeconfig
		if s.ListenWaits {
			words = "not yet: another process has this port"
		}
		fmt.Fprintf(w, "  https       https://%s  (%s)\n", s.Listen, words)
	}
	fmt.Fprintf(w, "  root        %s\n", s.Root)
	fmt.Fprintf(w, "  state       %s\n", s.State)
	fmt.Fprintf(w, "  runtime     %s\n", s.Runtime)
	if s.Network != "" {
		fmt.Fprintf(w, "  network     %s\n", s.Network)
	}
	fmt.Fprintf(w, "  found       %d Jobs (%d unfinished), %d pods on this node\n", s.Jobs, s.UnfinishedJobs, s.RunningPods)
}
