package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jobd/jobd/daemon"
)

func newServeCommand() *cobra.Command {
	config, file := daemon.DefaultConfig(), ""
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: take Jobs over the socket and run their pods",
		Long: `Run the daemon: take Jobs over the socket and run their pods.

Every flag can also stand in a YAML file given by --config, under the flag's name; a flag that is given wins.
SIGTERM stops serving and leaves the containers running: the next jobd of the same --root takes them up again.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	addDirs(flags, &config)
	flags.StringVar(&config.Socket, "socket", config.Socket, "unix socket of the API (STATE/jobd.sock)")
	flags.StringVar(&config.Listen, "listen", config.Listen, "also serve the API over TLS on this loopback host:port, and write ROOT/kubeconfig")
	flags.StringVar(&config.Runtime, "runtime", config.Runtime, "what runs the pods: containerd, or simulated (no containers)")
	flags.StringVar(&config.OCIRuntime, "oci-runtime", config.OCIRuntime, "crun, runc or a path (the first of these that works)")
	flags.StringVar(&config.Shim, "shim", config.Shim, "path of jobd-shim (beside jobd, or in PATH)")
	flags.DurationVar(&config.PodBackoffBase.Duration, "pod-backoff-base", config.PodBackoffBase.Duration, "wait after a Job's first failed pod; doubled for each further one")
	flags.DurationVar(&config.PodBackoffCap.Duration, "pod-backoff-cap", config.PodBackoffCap.Duration, "longest wait after a failed pod")
	flags.StringVar(&config.Network, "network", config.Network, "what pods get: bridge, host or none (a bridge where that is possible, else none)")
	flags.IntVar(&config.MaxPods, "max-pods", config.MaxPods, "how many pods run at a time")
	flags.StringVar(&config.Allocatable, "allocatable", config.Allocatable, "what pods may ask for together, as cpu=4,memory=8Gi (what the machine has)")
	flags.StringVar(&config.CDISpecDirs, "cdi-spec-dirs", config.CDISpecDirs, "directories of the CDI files that describe devices")
	flags.BoolVar(&config.WorkloadWithJob, "workload-with-job", config.WorkloadWithJob, "start the pods of Indexed Jobs with completions equal to parallelism together, or none")
	flags.Int64Var(&config.PidsLimit, "pids-limit", config.PidsLimit, "how many processes and threads a container may have (no limit)")
	flags.Int64Var(&config.PodMaxPids, "pod-max-pids", config.PodMaxPids, "how many processes and threads the containers of a pod may have together (no limit)")
	flags.BoolVar(&config.SeccompDefault, "seccomp-default", config.SeccompDefault, "give the seccomp profile RuntimeDefault to containers that ask for none")
	flags.DurationVar(&config.EventTTL.Duration, "event-ttl", config.EventTTL.Duration, "how long events are kept")
	flags.StringVar(&config.ContainerLogMaxSize, "container-log-max-size", config.ContainerLogMaxSize, "how large the log of a container grows before it is rotated")
	flags.IntVar(&config.ContainerLogMaxFiles, "container-log-max-files", config.ContainerLogMaxFiles, "how many files of a container's log are kept")
	flags.DurationVar(&config.KeptLogsAge.Duration, "kept-logs-age", config.KeptLogsAge.Duration, "how long the logs of a Job's pods are kept after the pods are gone; they go with the Job in any case")
	flags.StringVar(&config.KeptLogsSize, "kept-logs-size", config.KeptLogsSize, "how much the logs of pods that are gone may hold; the oldest go first")
	flags.StringVar(&config.RegistryHosts, "registry-hosts", config.RegistryHosts, "directory of mirrors and certificates of registries, as containerd's /etc/containerd/certs.d (ROOT/hosts)")
	flags.IntVar(&config.ImageGCHighThreshold, "image-gc-high-threshold", config.ImageGCHighThreshold, "how full the root's disk may get, in percent, before images that no pod uses are removed; 100 is never")
	flags.IntVar(&config.ImageGCLowThreshold, "image-gc-low-threshold", config.ImageGCLowThreshold, "how full, in percent, the disk may be after that")
	flags.DurationVar(&config.MinimumImageTTLDuration.Duration, "minimum-image-ttl-duration", config.MinimumImageTTLDuration.Duration, "how long an image stays in any case after it was pulled or used")
	flags.DurationVar(&config.ImageMaximumGCAge.Duration, "image-maximum-gc-age", config.ImageMaximumGCAge.Duration, "how long an image stays that no pod uses, however much room there is (for ever)")
	flags.BoolVar(&config.ImageGCImported, "image-gc-imported", config.ImageGCImported, "remove imported images like pulled ones, though no registry brings them back (they stay)")
	flags.StringVar(&config.EvictionHard, "eviction-hard", config.EvictionHard, "how little of the root's disk may be left before pods are kept away and evicted; empty is never")
	flags.DurationVar(&config.EvictionPressureTransitionPeriod.Duration, "eviction-pressure-transition-period", config.EvictionPressureTransitionPeriod.Duration, "how long new pods are kept away after so little was left")
	flags.StringVar(&config.LogLevel, "log-level", config.LogLevel, "debug, info, warn or error")
	flags.StringVar(&file, "config", "", "YAML file with these settings")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		tell := systemd()
		if file != "" {
			if err := readConfig(file, &config, flags); err != nil {
				return err
			}
		}
		logger, err := newLogger(os.Stderr, config.LogLevel)
		if err != nil {
			return err
		}
		config.Logger, config.Version = logger, version
		return daemon.Run(cmd.Context(), config, func(s daemon.Serving) {
			announce(cmd.OutOrStdout(), s)
			if err := tell("READY=1"); err != nil {
				logger.Warn("systemd does not know that jobd is ready", "error", err)
			}
		})
	}
	return cmd
}

func addDirs(flags *pflag.FlagSet, config *daemon.Config) {
	flags.StringVar(&config.Root, "root", config.Root, "directory of the database, images and logs")
	flags.StringVar(&config.State, "state", config.State, "directory of what belongs to one boot of the host: sockets, running containers")
}

// readConfig lays a file over the defaults and the flags that were given over the file.
func readConfig(path string, config *daemon.Config, flags *pflag.FlagSet) error {
	given := map[string]string{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = f.Value.String() })
	if err := config.ReadFile(path); err != nil {
		return err
	}
	for name, value := range given {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	return nil
}

func newLogger(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log-level: %q is not one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	if os.Getenv("JOURNAL_STREAM") != "" {
		// systemd adds times of its own.
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}

// announce tells a person at once what is served and where everything is.
func announce(w io.Writer, s daemon.Serving) {
	fmt.Fprintf(w, "jobd %s is ready after %v\n", s.Version, s.After)
	fmt.Fprintf(w, "  socket      %s\n", s.Socket)
	if s.Listen != "" {
		fmt.Fprintf(w, "  https       https://%s  (kubeconfig: %s)\n", s.Listen, s.Kubeconfig)
	}
	fmt.Fprintf(w, "  root        %s\n", s.Root)
	fmt.Fprintf(w, "  state       %s\n", s.State)
	fmt.Fprintf(w, "  runtime     %s\n", s.Runtime)
	if s.Network != "" {
		fmt.Fprintf(w, "  network     %s\n", s.Network)
	}
	fmt.Fprintf(w, "  found       %d Jobs (%d unfinished), %d pods on this node\n", s.Jobs, s.UnfinishedJobs, s.RunningPods)
}
