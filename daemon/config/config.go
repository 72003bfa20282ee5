// Package config holds the settings of `jobd serve`: their defaults, the file that sets them, what follows from other
// settings, and their checks.
//
// In come flags, in the fields of a Config, and a YAML file; out goes a complete Config, or an error that names the
// setting. The daemon and the commands that work on a root without a daemon read it. The package reads that file and
// looks for jobd-shim, and touches nothing else.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/auditlog"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/layout"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/userns"
)

// resourcePids names processes and threads in SystemReserved.
const resourcePids corev1.ResourceName = "pid"

const shimName = "jobd-shim"

// maxSocketPath is the kernel's limit; without this check a bind fails with nothing but "invalid argument".
const maxSocketPath = 107

// Config has the settings of `jobd serve`, by the names that flags and the YAML file have for them.
type Config struct {
	// Root keeps what must survive a reboot: the database, images, logs.
	Root string `json:"root,omitempty"`
	// State keeps what belongs to one boot of the host: sockets, shards, bundles.
	State string `json:"state,omitempty"`
	// Socket is where the API is served; by default State/jobd.sock.
	Socket string `json:"socket,omitempty"`
	// Listen is a loopback host:port where the API is served over TLS; empty means nowhere.
	Listen string `json:"listen,omitempty"`
	// Runtime is "containerd", or "simulated" for pods without containers.
	Runtime string `json:"runtime,omitempty"`
	// OCIRuntime starts the containers of pods without a runtime class: "crun", "runc", another of RuntimeHandlers, or a
	// path; if it is empty, the first of crun and runc that works is used.
	OCIRuntime string `json:"oci-runtime,omitempty"`
	// RuntimeHandlers are further OCI runtimes, by the names that RuntimeClasses have for them. crun and runc are found
	// by themselves.
	RuntimeHandlers Handlers `json:"runtime-handlers,omitempty"`
	// RuntimeRequestTimeout is how long one call of the OCI runtime may take, as a kubelet's setting of that name.
	RuntimeRequestTimeout metav1.Duration `json:"runtime-request-timeout,omitempty"`
	// PodBackoffBase and PodBackoffCap are the shortest and the longest delay between a Job's failed pod and the next
	// one.
	PodBackoffBase metav1.Duration `json:"pod-backoff-base,omitempty"`
	PodBackoffCap  metav1.Duration `json:"pod-backoff-cap,omitempty"`
	// Network is the network of pods that do not ask for the host's: "bridge", "host" or "none". If it is empty, that
	// is a bridge where one is possible, and else none.
	Network string `json:"network,omitempty"`
	// ServiceClusterIPRange is where the virtual addresses of Services are, such as "10.96.0.0/16", as an API server's
	// setting of that name; empty for a private network that the host does not use.
	ServiceClusterIPRange string `json:"service-cluster-ip-range,omitempty"`
	// ServiceNodePortRange are the ports of the host that Services may have, as an API server's setting of that name.
	ServiceNodePortRange string `json:"service-node-port-range,omitempty"`
	// MaxPods is how many pods run at a time.
	MaxPods int `json:"max-pods,omitempty"`
	// Allocatable is what pods may request together, by resource: "cpu=4,memory=8Gi,example.com/license=2". It
	// overrides what the machine has. Simulated pods may request anything unless this is set.
	Allocatable string `json:"allocatable,omitempty"`
	// SystemReserved is what of the machine is kept from pods, so that it and the daemon go on when pods take all they can
	// get, as a kubelet's setting of that name: "cpu=500m,memory=1Gi,ephemeral-storage=2Gi,pid=1000". All pods together get
	// no more memory, processes and threads than the rest. Unless it names them, 100Mi of memory are reserved, and a quarter
	// of the processes and threads.
	SystemReserved string `json:"system-reserved,omitempty"`
	// CDISpecDirs are the directories of the files that describe devices, separated by commas.
	CDISpecDirs string `json:"cdi-spec-dirs,omitempty"`
	// WorkloadWithJob makes a gang of every Indexed Job that runs all its indexes at once: its pods start together.
	WorkloadWithJob bool `json:"workload-with-job,omitempty"`
	// PidsLimit is how many processes and threads a container may have; 0 means no limit, and -1 a quarter of what all
	// pods may have together.
	PidsLimit int64 `json:"pids-limit,omitempty"`
	// PodMaxPids is how many processes and threads the containers of a pod may have together; 0 means no limit.
	PodMaxPids int64 `json:"pod-max-pids,omitempty"`
	// SeccompDefault applies the profile RuntimeDefault to containers that ask for none, as the kubelet's setting does.
	SeccompDefault bool `json:"seccomp-default,omitempty"`
	// AllowedUnsafeSysctls are the sysctls, or patterns of them that end in an asterisk, that pods may set beyond the safe
	// ones, as a kubelet's setting of that name.
	AllowedUnsafeSysctls []string `json:"allowed-unsafe-sysctls,omitempty"`
	// DropNetRaw takes CAP_NET_RAW from containers that do not add it.
	DropNetRaw bool `json:"drop-net-raw,omitempty"`
	// PodSecurity is the PodSecurityConfiguration of a cluster: which pods a namespace takes whose labels do not say, and who
	// is exempt.
	PodSecurity podsecurity.Configuration `json:"pod-security,omitempty"`
	// UserNamespaces says which pods have a user namespace of their own: "pod" those that ask for one, "default" all that
	// neither refuse it nor use another namespace of the host.
	UserNamespaces string `json:"user-namespaces,omitempty"`
	// UserNamespaceRange are the ids of the host that such pods get, START:COUNT; empty for what /etc/subuid and
	// /etc/subgid give to the user jobd, or else a range that nobody is known to use.
	UserNamespaceRange string `json:"user-namespace-range,omitempty"`
	// UnknownStorageClass says what becomes of a PersistentVolumeClaim that names a storage class which does not exist:
	// "default" gives it a volume of the default class, "wait" has it wait for the class, as in a cluster.
	UnknownStorageClass string `json:"unknown-storage-class,omitempty"`
	// EventTTL is how long events are kept after they were last seen.
	EventTTL metav1.Duration `json:"event-ttl,omitempty"`
	// ContainerLogMaxSize is the size at which the log of a container is rotated, such as "10Mi"; 0 means never.
	// ContainerLogMaxFiles is how many files of a log are kept.
	ContainerLogMaxSize  string `json:"container-log-max-size,omitempty"`
	ContainerLogMaxFiles int    `json:"container-log-max-files,omitempty"`
	// KeptLogsAge is how long the logs of a Job's pods are kept after the pods are gone; they go with their Job at the
	// latest. KeptLogsSize, such as "1Gi", is how much disk the logs of all such pods may use together; the oldest are
	// removed first.
	KeptLogsAge  metav1.Duration `json:"kept-logs-age,omitempty"`
	KeptLogsSize string          `json:"kept-logs-size,omitempty"`
	// HistoryAge is how long it is kept what Jobs have run and used, from their end on; HistorySize, such as "128Mi", is how
	// much of the database that may take, of which the oldest goes first. Either at 0 keeps none.
	HistoryAge  metav1.Duration `json:"history-age,omitempty"`
	HistorySize string          `json:"history-size,omitempty"`
	// RegistryHosts is the directory that configures mirrors and certificates of registries, as containerd has it: it
	// contains REGISTRY/hosts.toml. By default it is Root/hosts.
	RegistryHosts string `json:"registry-hosts,omitempty"`
	// ImageGCHighThreshold is how full the disk of Root may get, in percent, before unused images are removed, the
	// least recently used first. ImageGCLowThreshold is how full it may be afterwards. 100 means never.
	ImageGCHighThreshold int `json:"image-gc-high-threshold,omitempty"`
	ImageGCLowThreshold  int `json:"image-gc-low-threshold,omitempty"`
	// MinimumImageTTLDuration is how long an image is kept in any case after it was pulled or used. ImageMaximumGCAge
	// is how long an unused image is kept; 0 means forever.
	MinimumImageTTLDuration metav1.Duration `json:"minimum-image-ttl-duration,omitempty"`
	ImageMaximumGCAge       metav1.Duration `json:"image-maximum-gc-age,omitempty"`
	// ImageGCImported lets imported images be removed like pulled ones, although no registry can bring them back.
	ImageGCImported bool `json:"image-gc-imported,omitempty"`
	// EvictionHard is how little of the disk of Root may be left before no new pods start and those that use most of it
	// are evicted: "nodefs.available<1%,nodefs.inodesFree<1%" or amounts, as for a kubelet; empty means never.
	EvictionHard string `json:"eviction-hard,omitempty"`
	// EvictionPressureTransitionPeriod is how long no new pods start after that was last the case.
	EvictionPressureTransitionPeriod metav1.Duration `json:"eviction-pressure-transition-period,omitempty"`
	// AuditPolicyFile says which requests are logged in AuditLogPath; both are empty for no audit log. The settings are those
	// of auditlog.Options.
	AuditPolicyFile   string `json:"audit-policy-file,omitempty"`
	AuditLogPath      string `json:"audit-log-path,omitempty"`
	AuditLogMaxAge    int    `json:"audit-log-maxage,omitempty"`
	AuditLogMaxBackup int    `json:"audit-log-maxbackup,omitempty"`
	AuditLogMaxSize   int    `json:"audit-log-maxsize,omitempty"`
	AuditLogFormat    string `json:"audit-log-format,omitempty"`
	AuditLogMode      string `json:"audit-log-mode,omitempty"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `json:"log-level,omitempty"`

	// Version is the version of the build, which clients are shown.
	Version string `json:"-"`
	// Exit ends the process, when the daemon hangs or does not come to an end; nil is os.Exit.
	Exit func(code int) `json:"-"`
	// Logger is the daemon's log. Required.
	Logger *slog.Logger `json:"-"`
	// Shim is the path of jobd-shim; if it is empty, jobd-shim is looked for beside the daemon's own binary and in
	// PATH.
	Shim string `json:"shim,omitempty"`
}

// The values of Config.UserNamespaces.
const (
	UserNamespacesPod     = "pod"
	UserNamespacesDefault = "default"
)

// The values of Config.UnknownStorageClass.
const (
	UnknownStorageClassDefault = "default"
	UnknownStorageClassWait    = "wait"
)

// Default returns the Config of `jobd serve` without flags.
func Default() Config {
	return Config{
		Root:                  layout.DefaultRoot,
		State:                 layout.DefaultState,
		Runtime:               "containerd",
		RuntimeRequestTimeout: metav1.Duration{Duration: 2 * time.Minute},
		PodBackoffBase:        metav1.Duration{Duration: 10 * time.Second},
		PodBackoffCap:         metav1.Duration{Duration: 6 * time.Minute},
		ServiceNodePortRange:  "30000-32767",
		MaxPods:               1000,
		PidsLimit:             -1,
		SeccompDefault:        true,
		AllowedUnsafeSysctls:  []string{},
		CDISpecDirs:           "/etc/cdi,/var/run/cdi",
		UserNamespaces:        UserNamespacesPod,
		UnknownStorageClass:   UnknownStorageClassDefault,
		EventTTL:              metav1.Duration{Duration: time.Hour},
		ContainerLogMaxSize:   "10Mi", ContainerLogMaxFiles: 5,
		KeptLogsAge:  metav1.Duration{Duration: 7 * 24 * time.Hour},
		KeptLogsSize: "1Gi",
		HistoryAge:   metav1.Duration{Duration: 365 * 24 * time.Hour},
		HistorySize:  "128Mi",
		// A kubelet's 85 and 80 assume a disk of its own; this disk also holds the user's files.
		ImageGCHighThreshold: 95, ImageGCLowThreshold: 90,
		MinimumImageTTLDuration: metav1.Duration{Duration: 2 * time.Minute},
		// A kubelet's 10 and 5 % assume a disk of its own: on a workstation, whose disk may well be 92 % full, no pod
		// would ever start. Once the last percent is gone nothing works any more, and results of pods can no longer be
		// written.
		EvictionHard:                     "nodefs.available<1%,nodefs.inodesFree<1%",
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: 5 * time.Minute},
		// A cluster keeps up to 100 files; a tenth of that is 1 GB already.
		AuditLogMaxAge: 366, AuditLogMaxBackup: 10, AuditLogMaxSize: 100,
		AuditLogFormat: "json", AuditLogMode: auditlog.ModeBlocking,
		LogLevel: "info",
	}
}

// RootLayout returns the paths below Root.
func (c *Config) RootLayout() layout.Root { return layout.Root(c.Root) }

// StateLayout returns the paths below State.
func (c *Config) StateLayout() layout.State { return layout.State(c.State) }

// ReadFile applies the settings of a YAML file to c. An unknown name is an error.
func (c *Config) ReadFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return fmt.Errorf("config %s: %w", path, locate(data, err))
	}
	return nil
}

// locate says which setting of a file an error is of. Most errors do not: "time: invalid duration" comes from a parser of
// times.
func locate(data []byte, err error) error {
	var values map[string]any
	var file yamlv3.Node
	if yaml.Unmarshal(data, &values) != nil || yamlv3.Unmarshal(data, &file) != nil || len(file.Content) == 0 {
		return err // it is no YAML, of which the error names the line
	}
	settings := file.Content[0].Content // names and values in turn
	for i := 0; i < len(settings); i += 2 {
		name := settings[i].Value
		alone, unreadable := yaml.Marshal(map[string]any{name: values[name]})
		if unreadable != nil {
			return err
		}
		if wrong := yaml.UnmarshalStrict(alone, new(Config)); wrong != nil {
			if reason := errors.Unwrap(errors.Unwrap(wrong)); reason != nil {
				wrong = reason // without that it came up while JSON was decoded, which nobody has written
			}
			return fmt.Errorf("line %d: %s: %w", settings[i].Line, name, wrong)
		}
	}
	return err
}

// Complete fills in what follows from other settings, and checks everything.
func (c *Config) Complete() error {
	for setting, dir := range map[string]*string{"root": &c.Root, "state": &c.State} {
		if *dir == "" {
			return fmt.Errorf("%s is empty: it must name a directory", setting)
		}
		var err error
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
		if *dir == "/" {
			return fmt.Errorf("%s: / cannot be a directory of jobd's own", setting)
		}
	}
	if c.Socket == "" {
		c.Socket = c.StateLayout().Socket()
	}
	if c.RegistryHosts == "" {
		c.RegistryHosts = c.RootLayout().RegistryHosts()
	}
	if len(c.Socket) > maxSocketPath {
		return fmt.Errorf("socket: %s: a unix socket's path has at most %d characters", c.Socket, maxSocketPath)
	}
	if c.Runtime != "containerd" && c.Runtime != "simulated" {
		return fmt.Errorf("runtime: %q is not known: containerd or simulated", c.Runtime)
	}
	if c.RuntimeRequestTimeout.Duration <= 0 {
		return errors.New("runtime-request-timeout must be above 0")
	}
	if err := c.RuntimeHandlers.check(); err != nil {
		return fmt.Errorf("runtime-handlers: %w", err)
	}
	if c.PodBackoffBase.Duration <= 0 || c.PodBackoffCap.Duration < c.PodBackoffBase.Duration {
		return errors.New("pod-backoff-base must be above 0, and pod-backoff-cap not below it")
	}
	switch network.Mode(c.Network) {
	case network.Auto, network.Bridge, network.Host, network.None:
	default:
		return fmt.Errorf("network: %q is not known: bridge, host or none", c.Network)
	}
	if _, err := c.ServiceAddresses(); err != nil {
		return err
	}
	if _, err := c.NodePorts(); err != nil {
		return err
	}
	switch {
	case c.UserNamespaces != UserNamespacesPod && c.UserNamespaces != UserNamespacesDefault:
		return fmt.Errorf("user-namespaces: %q is not known: pod or default", c.UserNamespaces)
	case c.UserNamespaces == UserNamespacesDefault && network.Mode(c.Network) == network.Host:
		return errors.New("user-namespaces default needs pods with a network of their own, which network host rules out")
	}
	if c.UnknownStorageClass != UnknownStorageClassDefault && c.UnknownStorageClass != UnknownStorageClassWait {
		return fmt.Errorf("unknown-storage-class: %q is not known: default or wait", c.UnknownStorageClass)
	}
	if c.UserNamespaceRange != "" {
		if _, err := userns.Parse(c.UserNamespaceRange); err != nil {
			return fmt.Errorf("user-namespace-range: %w", err)
		}
	}
	if c.MaxPods < 1 {
		return errors.New("max-pods must be at least 1")
	}
	if c.PidsLimit < -1 || c.PodMaxPids < 0 {
		return errors.New("pids-limit must not be below -1, and pod-max-pids not below 0")
	}
	if _, err := c.Resources(); err != nil {
		return err
	}
	if _, err := c.PodSecurityPolicy(); err != nil {
		return err
	}
	if _, err := c.Sysctls(); err != nil {
		return err
	}
	if _, err := c.Reserved(); err != nil {
		return err
	}
	if c.EventTTL.Duration <= 0 {
		return errors.New("event-ttl must be above 0")
	}
	if c.KeptLogsAge.Duration < 0 {
		return errors.New("kept-logs-age must not be below 0")
	}
	if c.HistoryAge.Duration < 0 {
		return errors.New("history-age must not be below 0")
	}
	if _, err := c.History(); err != nil {
		return err
	}
	if _, _, err := c.LogSizes(); err != nil {
		return err
	}
	if _, err := c.ImageGC(); err != nil {
		return err
	}
	if _, err := c.Eviction(); err != nil {
		return err
	}
	if c.EvictionPressureTransitionPeriod.Duration < 0 {
		return errors.New("eviction-pressure-transition-period must not be below 0")
	}
	audit := c.Audit()
	if err := audit.Check(); err != nil {
		return err
	}
	if c.ContainerLogMaxFiles < 2 {
		return errors.New("container-log-max-files must be at least 2")
	}
	if c.Listen != "" {
		host, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("listen: %s is not a loopback address, so other machines could reach it: "+
				"use 127.0.0.1:%s, and reach it from another machine with: ssh -L %s:127.0.0.1:%s HOST", host, port, port, port)
		}
	}
	return nil
}

// Resources parses Allocatable.
func (c *Config) Resources() (corev1.ResourceList, error) {
	return parseResources("allocatable", c.Allocatable)
}

// Reserved returns what SystemReserved names.
func (c *Config) Reserved() (corev1.ResourceList, error) {
	list, err := parseResources("system-reserved", c.SystemReserved)
	for name := range list {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, resourcePids:
		default:
			return nil, fmt.Errorf("system-reserved: %q is none of cpu, memory, ephemeral-storage and pid", name)
		}
	}
	return list, err
}

func parseResources(setting, value string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for part := range strings.SplitSeq(value, ",") {
		if part == "" {
			continue
		}
		name, amount, ok := strings.Cut(part, "=")
		quantity, err := resource.ParseQuantity(amount)
		if !ok || name == "" || err != nil || quantity.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is not of the form cpu=4", setting, part)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

// PodSecurityPolicy returns what decides which pods a namespace takes, after a check.
func (c *Config) PodSecurityPolicy() (*podsecurity.Policy, error) {
	policy, err := podsecurity.New(c.PodSecurity)
	if err != nil {
		return nil, fmt.Errorf("pod-security.%w", err)
	}
	return policy, nil
}

// Sysctls returns the sysctls that pods may set: the safe ones and AllowedUnsafeSysctls.
func (c *Config) Sysctls() (oci.Sysctls, error) {
	sysctls, err := oci.ParseSysctls(c.AllowedUnsafeSysctls)
	if err != nil {
		return sysctls, fmt.Errorf("allowed-unsafe-sysctls: %w", err)
	}
	return sysctls, nil
}

// LogSizes returns KeptLogsSize and ContainerLogMaxSize in bytes.
func (c *Config) LogSizes() (kept, container int64, err error) {
	if kept, err = parseSize("kept-logs-size", c.KeptLogsSize); err != nil {
		return 0, 0, err
	}
	container, err = parseSize("container-log-max-size", c.ContainerLogMaxSize)
	return kept, container, err
}

// History returns how much is kept of the history of Jobs.
func (c *Config) History() (history.Limits, error) {
	size, err := parseSize("history-size", c.HistorySize)
	return history.Limits{Age: c.HistoryAge.Duration, Size: size}, err
}

func parseSize(name, size string) (int64, error) {
	q, err := resource.ParseQuantity(size)
	if err != nil || q.Sign() < 0 {
		return 0, fmt.Errorf("%s: %q is not a size, such as 10Mi", name, size)
	}
	return q.Value(), nil
}

// ImageGC returns the settings of image garbage collection, and checks them.
func (c *Config) ImageGC() (image.GCPolicy, error) {
	p := image.GCPolicy{
		HighThreshold: c.ImageGCHighThreshold, LowThreshold: c.ImageGCLowThreshold,
		MinAge: c.MinimumImageTTLDuration.Duration, MaxAge: c.ImageMaximumGCAge.Duration, Imported: c.ImageGCImported,
	}
	switch {
	case p.HighThreshold < 0 || p.HighThreshold > 100 || p.LowThreshold < 0 || p.LowThreshold > 100:
		return p, errors.New("image-gc-high-threshold and image-gc-low-threshold must be from 0 to 100")
	case p.LowThreshold >= p.HighThreshold:
		return p, errors.New("image-gc-low-threshold must be below image-gc-high-threshold")
	case p.MinAge < 0 || p.MaxAge < 0:
		return p, errors.New("minimum-image-ttl-duration and image-maximum-gc-age must not be below 0")
	case p.MaxAge > 0 && p.MaxAge <= p.MinAge:
		return p, errors.New("image-maximum-gc-age must be above minimum-image-ttl-duration, or 0 for no limit")
	}
	return p, nil
}

// Audit returns the settings of the audit log, which is off if they name no path.
func (c *Config) Audit() auditlog.Options {
	return auditlog.Options{
		PolicyFile: c.AuditPolicyFile, Path: c.AuditLogPath, MaxAge: c.AuditLogMaxAge, MaxBackups: c.AuditLogMaxBackup,
		MaxSize: c.AuditLogMaxSize, Format: c.AuditLogFormat, Mode: c.AuditLogMode,
	}
}

// Eviction parses EvictionHard.
func (c *Config) Eviction() ([]eviction.Threshold, error) {
	thresholds, err := eviction.Parse(c.EvictionHard)
	if err != nil {
		return nil, fmt.Errorf("eviction-hard: %w", err)
	}
	return thresholds, nil
}

// ShimPath finds jobd-shim: as configured, beside this program, or in PATH.
func (c *Config) ShimPath() (string, error) {
	if c.Shim != "" {
		return filepath.Abs(c.Shim)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), shimName)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(shimName)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside jobd nor in PATH: install both, or name it with --shim", shimName)
	}
	return path, nil
}
