package config

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/jobd/jobd/api/auditlog"
	"github.com/jobd/jobd/internal/layout"
)

// AddFlags adds a flag for each setting, which sets its field to the default at once. This is the one list of the settings:
// their names, their defaults and what they mean, also for the file (`jobd config`) and for docs/jobd-flags.md. What stands
// in parentheses is what follows from other settings and from the machine where none is given.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	c.AddDirs(flags)
	flags.StringVar(&c.Socket, "socket", "", "unix socket of the API (STATE/jobd.sock)")
	flags.StringVar(&c.SocketGroup, "socket-group", "jobd",
		"group whose members may use that socket, and so are as good as root, if there is one of that name")
	flags.Var(&c.Users, "users",
		"users of the machine who get a namespace of their own, in which pods run as themselves; @ begins a group (docs/team.md; nobody)")
	flags.BoolVar(&c.HostRoot, "host-root", false,
		"let root run commands of this machine as Jobs too (jobctl submit --host), as users may in their namespaces (docs/team.md)")
	flags.StringVar(&c.UsersSocket, "users-socket", "", "unix socket of those users, which anybody may open (SOCKET-users.sock)")
	flags.StringVar(&c.Listen, "listen", "",
		"also serve the API over TLS on this loopback host:port, and write ROOT/kubeconfig")
	flags.StringVar(&c.Runtime, "runtime", "containerd",
		"what runs the pods: containerd, or simulated (no containers)")
	flags.StringVar(&c.OCIRuntime, "oci-runtime", "",
		"what starts the containers of pods without a runtime class: crun, runc, one of --runtime-handlers or a path (the first of these that works)")
	flags.Var(&c.RuntimeHandlers, "runtime-handlers",
		"further OCI runtimes that RuntimeClasses may name as their handlers, such as runsc=/usr/local/bin/runsc (crun and runc)")
	flags.DurationVar(
		&c.RuntimeRequestTimeout.Duration, "runtime-request-timeout", 2*time.Minute,
		"how long the OCI runtime may take to start a container or a command in it",
	)
	flags.StringVar(&c.Shim, "shim", "", "path of jobd-shim (beside jobd, or in PATH)")
	flags.DurationVar(&c.PodBackoffBase.Duration, "pod-backoff-base", 10*time.Second,
		"wait after the first failed pod of a Job; doubles with each further one")
	flags.DurationVar(&c.PodBackoffCap.Duration, "pod-backoff-cap", 6*time.Minute,
		"longest wait after a failed pod")
	flags.StringVar(&c.Network, "network", "",
		"network of pods: bridge, host or none (a bridge where that is possible, else none)")
	flags.StringVar(&c.ServiceClusterIPRange, "service-cluster-ip-range", "",
		"IPv4 `network` of the virtual addresses of Services (a private one that the host does not use)")
	flags.StringVar(&c.ServiceNodePortRange, "service-node-port-range", "30000-32767",
		"`ports` of the host that Services of type NodePort may have")
	flags.BoolVar(&c.MultiKueue, "multikueue", false,
		"let managers of MultiKueue, whom a role allows it, hand out Jobs to this machine (docs/clusters.md)")
	flags.StringVar(&c.MultiKueueListen, "multikueue-listen", "",
		"serve the API to those managers on this host:port, which other machines may reach: over TLS, to tokens of ServiceAccounts alone")
	flags.StringVar(&c.MultiKueueCertFile, "multikueue-cert-file", "", "certificate that is shown there, in PEM, with those that have signed it")
	flags.StringVar(&c.MultiKueueKeyFile, "multikueue-key-file", "", "its private key")
	flags.IntVar(&c.MaxPods, "max-pods", 1000, "how many pods run at once")
	flags.DurationVar(&c.StarvationAfter.Duration, "starvation-after", 10*time.Minute,
		"how long the first in the queue waits before nothing that it needs is given to those behind it; 0 means for ever")
	flags.StringVar(&c.QueueOrder, "queue-order", QueueOrderAge,
		"which pods of the same priority start first: age, the oldest; fair, those of whoever has used least of the machine")
	flags.StringVar(&c.FairShareBy, "fair-share-by", FairShareByNamespace,
		"with queue-order fair, whose use is counted: namespace, that of a namespace by its annotation jobd.dev/share; creator, that of who has created a Job")
	flags.DurationVar(&c.FairShareHalfLife.Duration, "fair-share-half-life", 24*time.Hour,
		"with queue-order fair, how long it takes until use counts for half as much")
	flags.StringVar(&c.Allocatable, "allocatable", "",
		"what all pods may request together, such as cpu=4,memory=8Gi (what the machine has)")
	flags.StringVar(&c.SystemReserved, "system-reserved", "",
		"what is reserved for the system, such as cpu=500m,memory=1Gi,ephemeral-storage=2Gi,pid=1000 (memory=100Mi and a quarter of the pids)")
	flags.StringVar(&c.CDISpecDirs, "cdi-spec-dirs", "/etc/cdi,/var/run/cdi",
		"directories of the CDI files that describe devices")
	flags.Var(&c.Devices, "devices",
		"how many pods may share a device, by its kind: nvidia.com/gpu=4 offers nvidia.com/gpu.shared (none);\n"+
			"in the file devices: {nvidia.com/gpu: {replicas: 4}}")
	flags.StringVar(&c.DevicesInUse, "devices-in-use", DevicesInUseWait,
		"what becomes of GPUs of NVIDIA that other programs than pods use: wait, pods do not get them; ignore, pods get them all the same")
	flags.StringVar(&c.NvidiaSMI, "nvidia-smi", "",
		"path of nvidia-smi, which says who uses them (in PATH, or where drivers put it)")
	flags.BoolVar(&c.WorkloadWithJob, "workload-with-job", false,
		"start all pods of an Indexed Job together, or none, if its completions equal its parallelism")
	flags.Int64Var(&c.PidsLimit, "pids-limit", -1,
		"how many processes and threads a container may have; 0 is no limit, -1 a quarter of what all pods may have")
	flags.Int64Var(&c.PodMaxPids, "pod-max-pids", 0,
		"how many processes and threads the containers of a pod may have together (no limit)")
	flags.Var(&c.PodsCPUWeight, "pods-cpu-weight",
		"share of the processors that all pods have together beside the rest of the machine: idle, what nobody else wants; or 1 to 10000 (100)")
	flags.Var(&c.PodsIOWeight, "pods-io-weight",
		"the same for the disks, where their I/O scheduler knows weights or classes (100)")
	flags.BoolVar(&c.SeccompDefault, "seccomp-default", true,
		"give the seccomp profile RuntimeDefault to containers that ask for none")
	flags.StringSliceVar(&c.AllowedUnsafeSysctls, "allowed-unsafe-sysctls", []string{},
		"sysctls that pods may set besides the safe ones, such as net.core.somaxconn,kernel.msg* (a pod with others is rejected)")
	flags.BoolVar(&c.DropNetRaw, "drop-net-raw", false,
		"drop CAP_NET_RAW, which lets a pod send arbitrary packets, from containers that do not add it")
	flags.StringVar(&c.PodSecurity.Defaults.Enforce, "pod-security-enforce", "",
		"Pod Security level of namespaces without the label: privileged, baseline or restricted (privileged);\n"+
			"in the file pod-security.defaults.enforce, as in a PodSecurityConfiguration")
	flags.StringVar(&c.UserNamespaces, "user-namespaces", UserNamespacesPod,
		"which pods get a user namespace: pod, those with hostUsers: false; default, all that use no namespace of the host")
	flags.StringVar(&c.UserNamespaceRange, "user-namespace-range", "",
		"START:COUNT, the host's ids for those pods, 65536 each (those of jobd in /etc/subuid and /etc/subgid, else unused ones)")
	flags.StringVar(&c.UnknownStorageClass, "unknown-storage-class", UnknownStorageClassDefault,
		"what a PersistentVolumeClaim gets whose storage class does not exist: default, a volume of the default class;\n"+
			"wait, nothing before the class or a PersistentVolume of it is created")
	flags.DurationVar(&c.JobTTL.Duration, "job-ttl", 0,
		"how long a complete Job is kept that has no ttlSecondsAfterFinished and no controller, such as a CronJob (forever)")
	flags.DurationVar(&c.FailedJobTTL.Duration, "failed-job-ttl", 0,
		"the same for a Job that has failed (forever)")
	flags.DurationVar(&c.EventTTL.Duration, "event-ttl", time.Hour,
		"how long events are kept")
	flags.StringVar(&c.ContainerLogMaxSize, "container-log-max-size", "10Mi",
		"how large the log of a container grows before it is rotated")
	flags.IntVar(&c.ContainerLogMaxFiles, "container-log-max-files", 5,
		"how many files of a container's log are kept")
	flags.DurationVar(&c.KeptLogsAge.Duration, "kept-logs-age", 7*24*time.Hour,
		"how long the logs of a Job's pods are kept after the pods are gone, at most until the Job is removed")
	flags.StringVar(&c.KeptLogsSize, "kept-logs-size", "1Gi",
		"how much space the logs of pods that are gone may take; the oldest of the namespace that has most are removed first")
	flags.DurationVar(&c.HistoryAge.Duration, "history-age", 365*24*time.Hour,
		"how long \"jobctl history\" shows a Job after its end; 0 keeps no history")
	flags.StringVar(&c.HistorySize, "history-size", "128Mi",
		"how much of the database the history of Jobs may take; the oldest of the namespaces with most goes first")
	flags.StringVar(&c.RegistryHosts, "registry-hosts", "",
		"directory of mirrors and certificates of registries, as containerd's /etc/containerd/certs.d (ROOT/hosts)")
	flags.StringSliceVar(&c.LocalImages, "local-images", []string{},
		"where to look for an image before a registry is asked: docker, podman, or both, each perhaps as NAME=SOCKET; "+
			"whoever creates pods can then use every image there (only the registry)")
	// A kubelet's 85 and 80 assume a disk of its own; this disk also holds the user's files.
	flags.IntVar(&c.ImageGCHighThreshold, "image-gc-high-threshold", 95,
		"how full the root's disk may get, in percent, before images that no pod uses are removed; 100 means never")
	flags.IntVar(&c.ImageGCLowThreshold, "image-gc-low-threshold", 90,
		"how full the disk may be after that, in percent")
	flags.DurationVar(&c.MinimumImageTTLDuration.Duration, "minimum-image-ttl-duration", 2*time.Minute,
		"how long an image is kept after it was pulled or used, however full the disk is")
	flags.DurationVar(&c.ImageMaximumGCAge.Duration, "image-maximum-gc-age", 0,
		"how long an image that no pod uses is kept, however empty the disk is (forever)")
	flags.BoolVar(&c.ImageGCImported, "image-gc-imported", false,
		"also remove unused images that were imported and cannot be pulled again (they are kept)")
	// That of memory is a kubelet's. Its 10 and 5 % of the disk assume a disk of its own: on a workstation, whose disk may well be
	// 92 % full, no pod would ever start. Once the last percent is gone nothing works any more, and results of pods can no
	// longer be written.
	flags.StringVar(&c.EvictionHard, "eviction-hard", "memory.available<100Mi,nodefs.available<1%,nodefs.inodesFree<1%",
		"how little of memory and the root's disk may be left before new pods are kept away and others are evicted; empty means never")
	flags.DurationVar(&c.EvictionPressureTransitionPeriod.Duration, "eviction-pressure-transition-period", 5*time.Minute,
		"how long new pods are kept away after too little was left last")
	flags.DurationVar(&c.ShutdownGracePeriod.Duration, "shutdown-grace-period", 90*time.Second,
		"how long pods have to end, each within its own grace period, when the machine is shut down or rebooted; 0 leaves them to the host's last SIGTERM")
	flags.BoolVar(&c.InhibitSleep, "inhibit-sleep", false,
		"keep the machine from going to sleep while pods run, by a lock of systemd-logind")
	flags.StringVar(&c.AuditPolicyFile, "audit-policy-file", "",
		"file of the kind Policy (audit.k8s.io/v1) that says which requests are logged (no audit log)")
	flags.StringVar(&c.AuditLogPath, "audit-log-path", "",
		"file that the audit log is written to; - is standard output")
	flags.IntVar(&c.AuditLogMaxAge, "audit-log-maxage", 366,
		"how many days older files of the audit log are kept; 0 means forever")
	// A cluster keeps up to 100 files; a tenth of that is 1 GB already.
	flags.IntVar(&c.AuditLogMaxBackup, "audit-log-maxbackup", 10,
		"how many older files of the audit log are kept; 0 means all")
	flags.IntVar(&c.AuditLogMaxSize, "audit-log-maxsize", 100,
		"how many megabytes the audit log grows to before a new file is started; 0 means no limit")
	flags.StringVar(&c.AuditLogFormat, "audit-log-format", "json",
		"json, or legacy for lines of plain text")
	flags.StringVar(&c.AuditLogMode, "audit-log-mode", auditlog.ModeBlocking,
		"blocking; blocking-strict, which refuses requests that cannot be logged; or batch, which delays none and may lose some")
	flags.Var(&c.NotifyReceivers, "notify-receivers",
		"receivers that users may let be told of their Jobs, by name (docs/notices.md); the flag, which may be repeated, takes webhooks (none)")
	flags.StringVar(&c.Manifests, "manifests", "",
		"`directory` of manifests that are applied at the start and when they change, and whose objects are removed with them; none for none "+
			"(/etc/jobd/manifests.d if that exists and the root is the default one)")
	flags.StringVar(&c.LogLevel, "log-level", "info", "debug, info, warn or error")
}

// AddDirs adds the flags of the two directories, which all commands have that work on a root.
func (c *Config) AddDirs(flags *pflag.FlagSet) {
	flags.StringVar(&c.Root, "root", layout.DefaultRoot, "directory of the database, images and logs")
	flags.StringVar(&c.State, "state", layout.DefaultState,
		"directory for what belongs to one boot of the host: sockets, running containers")
}
