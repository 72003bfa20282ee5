package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jobd/jobd/daemon"
	"github.com/jobd/jobd/daemon/config"
)

func newServeCommand() *cobra.Command {
	settings, file := config.Default(), ""
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: accept Jobs on the socket and run their pods",
		Long: `Run the daemon: accept Jobs on the socket and run their pods.

Every flag can also be set in the YAML file that --config names, under the flag's name; the command line wins.
SIGTERM stops the daemon and leaves the containers running: the next jobd of the same --root picks them up again.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	addDirs(flags, &settings)
	flags.StringVar(&settings.Socket, "socket", settings.Socket, "unix socket of the API (STATE/jobd.sock)")
	flags.StringVar(&settings.Listen, "listen", settings.Listen,
		"also serve the API over TLS on this loopback host:port, and write ROOT/kubeconfig")
	flags.StringVar(&settings.Runtime, "runtime", settings.Runtime,
		"what runs the pods: containerd, or simulated (no containers)")
	flags.StringVar(&settings.OCIRuntime, "oci-runtime", settings.OCIRuntime,
		"what starts the containers of pods without a runtime class: crun, runc, one of --runtime-handlers or a path (the first of these that works)")
	flags.Var(&settings.RuntimeHandlers, "runtime-handlers",
		"further OCI runtimes that RuntimeClasses may name as their handlers, such as runsc=/usr/local/bin/runsc (crun and runc)")
	flags.DurationVar(&settings.RuntimeRequestTimeout.Duration, "runtime-request-timeout",
		settings.RuntimeRequestTimeout.Duration, "how long the OCI runtime may take to start a container or a command in it")
	flags.StringVar(&settings.Shim, "shim", settings.Shim, "path of jobd-shim (beside jobd, or in PATH)")
	flags.DurationVar(&settings.PodBackoffBase.Duration, "pod-backoff-base", settings.PodBackoffBase.Duration,
		"wait after the first failed pod of a Job; doubles with each further one")
	flags.DurationVar(&settings.PodBackoffCap.Duration, "pod-backoff-cap", settings.PodBackoffCap.Duration,
		"longest wait after a failed pod")
	flags.StringVar(&settings.Network, "network", settings.Network,
		"network of pods: bridge, host or none (a bridge where that is possible, else none)")
	flags.StringVar(&settings.ServiceClusterIPRange, "service-cluster-ip-range", settings.ServiceClusterIPRange,
		"IPv4 `network` of the virtual addresses of Services (a private one that the host does not use)")
	flags.StringVar(&settings.ServiceNodePortRange, "service-node-port-range", settings.ServiceNodePortRange,
		"`ports` of the host that Services of type NodePort may have")
	flags.IntVar(&settings.MaxPods, "max-pods", settings.MaxPods, "how many pods run at once")
	flags.StringVar(&settings.Allocatable, "allocatable", settings.Allocatable,
		"what all pods may request together, such as cpu=4,memory=8Gi (what the machine has)")
	flags.StringVar(&settings.SystemReserved, "system-reserved", settings.SystemReserved,
		"what is reserved for the system, such as cpu=500m,memory=1Gi,ephemeral-storage=2Gi,pid=1000 (memory=100Mi and a quarter of the pids)")
	flags.StringVar(&settings.CDISpecDirs, "cdi-spec-dirs", settings.CDISpecDirs,
		"directories of the CDI files that describe devices")
	flags.BoolVar(&settings.WorkloadWithJob, "workload-with-job", settings.WorkloadWithJob,
		"start all pods of an Indexed Job together, or none, if its completions equal its parallelism")
	flags.Int64Var(&settings.PidsLimit, "pids-limit", settings.PidsLimit,
		"how many processes and threads a container may have; 0 is no limit, -1 a quarter of what all pods may have")
	flags.Int64Var(&settings.PodMaxPids, "pod-max-pids", settings.PodMaxPids,
		"how many processes and threads the containers of a pod may have together (no limit)")
	flags.BoolVar(&settings.SeccompDefault, "seccomp-default", settings.SeccompDefault,
		"give the seccomp profile RuntimeDefault to containers that ask for none")
	flags.StringSliceVar(&settings.AllowedUnsafeSysctls, "allowed-unsafe-sysctls", settings.AllowedUnsafeSysctls,
		"sysctls that pods may set besides the safe ones, such as net.core.somaxconn,kernel.msg* (a pod with others is rejected)")
	flags.BoolVar(&settings.DropNetRaw, "drop-net-raw", settings.DropNetRaw,
		"drop CAP_NET_RAW, which lets a pod send arbitrary packets, from containers that do not add it")
	flags.StringVar(&settings.PodSecurity.Defaults.Enforce, "pod-security-enforce", settings.PodSecurity.Defaults.Enforce,
		"Pod Security level of namespaces without the label: privileged, baseline or restricted (privileged);\n"+
			"in the file pod-security.defaults.enforce, as in a PodSecurityConfiguration")
	flags.StringVar(&settings.UserNamespaces, "user-namespaces", settings.UserNamespaces,
		"which pods get a user namespace: pod, those with hostUsers: false; default, all that use no namespace of the host")
	flags.StringVar(&settings.UserNamespaceRange, "user-namespace-range", settings.UserNamespaceRange,
		"START:COUNT, the host's ids for those pods, 65536 each (those of jobd in /etc/subuid and /etc/subgid, else unused ones)")
	flags.StringVar(&settings.UnknownStorageClass, "unknown-storage-class", settings.UnknownStorageClass,
		"what a PersistentVolumeClaim gets whose storage class does not exist: default, a volume of the default class;\n"+
			"wait, nothing before the class or a PersistentVolume of it is created")
	flags.DurationVar(&settings.EventTTL.Duration, "event-ttl", settings.EventTTL.Duration,
		"how long events are kept")
	flags.StringVar(&settings.ContainerLogMaxSize, "container-log-max-size", settings.ContainerLogMaxSize,
		"how large the log of a container grows before it is rotated")
	flags.IntVar(&settings.ContainerLogMaxFiles, "container-log-max-files", settings.ContainerLogMaxFiles,
		"how many files of a container's log are kept")
	flags.DurationVar(&settings.KeptLogsAge.Duration, "kept-logs-age", settings.KeptLogsAge.Duration,
		"how long the logs of a Job's pods are kept after the pods are gone, at most until the Job is removed")
	flags.StringVar(&settings.KeptLogsSize, "kept-logs-size", settings.KeptLogsSize,
		"how much space the logs of pods that are gone may take; the oldest are removed first")
	flags.DurationVar(&settings.HistoryAge.Duration, "history-age", settings.HistoryAge.Duration,
		"how long \"jobctl history\" shows a Job after its end; 0 keeps no history")
	flags.StringVar(&settings.HistorySize, "history-size", settings.HistorySize,
		"how much of the database the history of Jobs may take; the oldest goes first")
	flags.StringVar(&settings.RegistryHosts, "registry-hosts", settings.RegistryHosts,
		"directory of mirrors and certificates of registries, as containerd's /etc/containerd/certs.d (ROOT/hosts)")
	flags.IntVar(&settings.ImageGCHighThreshold, "image-gc-high-threshold", settings.ImageGCHighThreshold,
		"how full the root's disk may get, in percent, before images that no pod uses are removed; 100 means never")
	flags.IntVar(&settings.ImageGCLowThreshold, "image-gc-low-threshold", settings.ImageGCLowThreshold,
		"how full the disk may be after that, in percent")
	flags.DurationVar(&settings.MinimumImageTTLDuration.Duration, "minimum-image-ttl-duration", settings.MinimumImageTTLDuration.Duration,
		"how long an image is kept after it was pulled or used, however full the disk is")
	flags.DurationVar(&settings.ImageMaximumGCAge.Duration, "image-maximum-gc-age", settings.ImageMaximumGCAge.Duration,
		"how long an image that no pod uses is kept, however empty the disk is (forever)")
	flags.BoolVar(&settings.ImageGCImported, "image-gc-imported", settings.ImageGCImported,
		"also remove unused images that were imported and cannot be pulled again (they are kept)")
	flags.StringVar(&settings.EvictionHard, "eviction-hard", settings.EvictionHard,
		"how little of the root's disk may be left before new pods are kept away and others are evicted; empty means never")
	flags.DurationVar(&settings.EvictionPressureTransitionPeriod.Duration, "eviction-pressure-transition-period", settings.EvictionPressureTransitionPeriod.Duration,
		"how long new pods are kept away after the disk was last too full")
	flags.StringVar(&settings.AuditPolicyFile, "audit-policy-file", settings.AuditPolicyFile,
		"file of the kind Policy (audit.k8s.io/v1) that says which requests are logged (no audit log)")
	flags.StringVar(&settings.AuditLogPath, "audit-log-path", settings.AuditLogPath,
		"file that the audit log is written to; - is standard output")
	flags.IntVar(&settings.AuditLogMaxAge, "audit-log-maxage", settings.AuditLogMaxAge,
		"how many days older files of the audit log are kept; 0 means forever")
	flags.IntVar(&settings.AuditLogMaxBackup, "audit-log-maxbackup", settings.AuditLogMaxBackup,
		"how many older files of the audit log are kept; 0 means all")
	flags.IntVar(&settings.AuditLogMaxSize, "audit-log-maxsize", settings.AuditLogMaxSize,
		"how many megabytes the audit log grows to before a new file is started; 0 means no limit")
	flags.StringVar(&settings.AuditLogFormat, "audit-log-format", settings.AuditLogFormat,
		"json, or legacy for lines of plain text")
	flags.StringVar(&settings.AuditLogMode, "audit-log-mode", settings.AuditLogMode,
		"blocking; blocking-strict, which refuses requests that cannot be logged; or batch, which delays none and may lose some")
	flags.StringVar(&settings.LogLevel, "log-level", settings.LogLevel, "debug, info, warn or error")
	flags.StringVar(&file, "config", "", "YAML file with these settings")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		tell := systemd()
		if file != "" {
			if err := readConfig(file, &settings, flags); err != nil {
				return err
			}
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

func addDirs(flags *pflag.FlagSet, settings *config.Config) {
	flags.StringVar(&settings.Root, "root", settings.Root, "directory of the database, images and logs")
	flags.StringVar(&settings.State, "state", settings.State,
		"directory for what belongs to one boot of the host: sockets, running containers")
}

// readConfig applies a file over the defaults, and the flags that were set over the file: all of them, or only those that
// are named.
func readConfig(path string, settings *config.Config, flags *pflag.FlagSet, only ...string) error {
	given := map[string]string{}
	flags.Visit(func(f *pflag.Flag) {
		if len(only) == 0 || slices.Contains(only, f.Name) {
			given[f.Name] = f.Value.String()
		}
	})
	if err := settings.ReadFile(path); err != nil {
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
