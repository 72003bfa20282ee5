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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	yamlv3 "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/people"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/internal/layout"
)

const shimName = "jobd-shim"

// Config has the settings of `jobd serve`, by the names that flags and the YAML file have for them. AddFlags has the default
// of each and says what it means.
type Config struct {
	Root  string `json:"root,omitempty"`  // what must survive a reboot: the database, images, logs
	State string `json:"state,omitempty"` // what belongs to one boot of the host: sockets, shards, bundles

	Socket      string          `json:"socket,omitempty"`
	SocketGroup string          `json:"socket-group,omitempty"`
	UsersSocket string          `json:"users-socket,omitempty"`
	Users       people.Settings `json:"users,omitempty"` // nobody: there is no such socket
	HostRoot    bool            `json:"host-root,omitempty"`
	Listen      string          `json:"listen,omitempty"`

	Runtime               string          `json:"runtime,omitempty"`
	OCIRuntime            string          `json:"oci-runtime,omitempty"`
	RuntimeHandlers       Handlers        `json:"runtime-handlers,omitempty"`
	RuntimeRequestTimeout metav1.Duration `json:"runtime-request-timeout,omitempty"` // of one call of the OCI runtime
	Shim                  string          `json:"shim,omitempty"`

	PodBackoffBase  metav1.Duration `json:"pod-backoff-base,omitempty"`
	PodBackoffCap   metav1.Duration `json:"pod-backoff-cap,omitempty"`
	WorkloadWithJob bool            `json:"workload-with-job,omitempty"` // such Jobs are gangs

	Network               string `json:"network,omitempty"`
	ServiceClusterIPRange string `json:"service-cluster-ip-range,omitempty"`
	ServiceNodePortRange  string `json:"service-node-port-range,omitempty"`

	StarvationAfter   metav1.Duration `json:"starvation-after,omitempty"` // 0: never
	QueueOrder        string          `json:"queue-order,omitempty"`
	FairShareBy       string          `json:"fair-share-by,omitempty"`
	FairShareHalfLife metav1.Duration `json:"fair-share-half-life,omitempty"`

	MultiKueue         bool    `json:"multikueue,omitempty"`
	MultiKueueListen   string  `json:"multikueue-listen,omitempty"`
	MultiKueueCertFile string  `json:"multikueue-cert-file,omitempty"`
	MultiKueueKeyFile  string  `json:"multikueue-key-file,omitempty"`
	MaxPods            int     `json:"max-pods,omitempty"`
	Allocatable        string  `json:"allocatable,omitempty"` // simulated pods may request anything unless this is set
	SystemReserved     string  `json:"system-reserved,omitempty"`
	CDISpecDirs        string  `json:"cdi-spec-dirs,omitempty"` // separated by commas
	Devices            Devices `json:"devices,omitempty"`
	DevicesInUse       string  `json:"devices-in-use,omitempty"`
	NvidiaSMI          string  `json:"nvidia-smi,omitempty"`
	PidsLimit          int64   `json:"pids-limit,omitempty"`   // of a container
	PodMaxPids         int64   `json:"pod-max-pids,omitempty"` // of the containers of a pod together

	PodsCPUWeight WeightText `json:"pods-cpu-weight,omitempty"`
	PodsIOWeight  WeightText `json:"pods-io-weight,omitempty"`

	SeccompDefault       bool                      `json:"seccomp-default,omitempty"`
	AllowedUnsafeSysctls []string                  `json:"allowed-unsafe-sysctls,omitempty"` // names, or patterns that end in *
	DropNetRaw           bool                      `json:"drop-net-raw,omitempty"`
	PodSecurity          podsecurity.Configuration `json:"pod-security,omitempty"`
	UserNamespaces       string                    `json:"user-namespaces,omitempty"`
	UserNamespaceRange   string                    `json:"user-namespace-range,omitempty"`

	UnknownStorageClass string `json:"unknown-storage-class,omitempty"`

	JobTTL               metav1.Duration `json:"job-ttl,omitempty"` // 0 means never, as below
	FailedJobTTL         metav1.Duration `json:"failed-job-ttl,omitempty"`
	EventTTL             metav1.Duration `json:"event-ttl,omitempty"`
	ContainerLogMaxSize  string          `json:"container-log-max-size,omitempty"` // 0 means that logs are not rotated
	ContainerLogMaxFiles int             `json:"container-log-max-files,omitempty"`
	KeptLogsAge          metav1.Duration `json:"kept-logs-age,omitempty"`
	KeptLogsSize         string          `json:"kept-logs-size,omitempty"`
	HistoryAge           metav1.Duration `json:"history-age,omitempty"`
	HistorySize          string          `json:"history-size,omitempty"` // either at 0 keeps none

	RegistryHosts           string          `json:"registry-hosts,omitempty"` // contains REGISTRY/hosts.toml
	LocalImages             []string        `json:"local-images,omitempty"`   // docker, podman, or one of them with =SOCKET
	ImageGCHighThreshold    int             `json:"image-gc-high-threshold,omitempty"`
	ImageGCLowThreshold     int             `json:"image-gc-low-threshold,omitempty"`
	MinimumImageTTLDuration metav1.Duration `json:"minimum-image-ttl-duration,omitempty"`
	ImageMaximumGCAge       metav1.Duration `json:"image-maximum-gc-age,omitempty"`
	ImageGCImported         bool            `json:"image-gc-imported,omitempty"`

	EvictionHard                     string          `json:"eviction-hard,omitempty"`
	EvictionPressureTransitionPeriod metav1.Duration `json:"eviction-pressure-transition-period,omitempty"`

	// Without AuditPolicyFile and AuditLogPath there is no audit log. The settings are those of auditlog.Options.
	AuditPolicyFile   string `json:"audit-policy-file,omitempty"`
	AuditLogPath      string `json:"audit-log-path,omitempty"`
	AuditLogMaxAge    int    `json:"audit-log-maxage,omitempty"`
	AuditLogMaxBackup int    `json:"audit-log-maxbackup,omitempty"`
	AuditLogMaxSize   int    `json:"audit-log-maxsize,omitempty"`
	AuditLogFormat    string `json:"audit-log-format,omitempty"`
	AuditLogMode      string `json:"audit-log-mode,omitempty"`

	ShutdownGracePeriod metav1.Duration `json:"shutdown-grace-period,omitempty"` // 0: a shutdown of the machine is like any other stop
	InhibitSleep        bool            `json:"inhibit-sleep,omitempty"`

	// NotifyReceivers are whom users may let be told of their Jobs.
	NotifyReceivers notify.Receivers `json:"notify-receivers,omitempty"`
	Manifests       string           `json:"manifests,omitempty"` // ManifestsDir is what it means

	LogLevel string `json:"log-level,omitempty"`

	// Version is the version of the build, which clients are shown.
	Version string `json:"-"`
	// Exit ends the process, when the daemon hangs or does not come to an end; nil is os.Exit.
	Exit func(code int) `json:"-"`
	// Alive is called about every second in which nothing hangs; nil for nothing. It must not block.
	Alive func() `json:"-"`
	// Extend asks the service manager for that much time to stop, counted from now; nil for nothing. It must not block.
	Extend func(time.Duration) `json:"-"`
	// Logger is the daemon's log. Required.
	Logger *slog.Logger `json:"-"`
}

// The values of Config.QueueOrder.
const (
	QueueOrderAge  = "age"
	QueueOrderFair = "fair"
)

// The values of Config.FairShareBy.
const (
	FairShareByNamespace = "namespace"
	FairShareByCreator   = "creator"
)

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
func Default() (c Config) {
	c.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return c
}

// RootLayout returns the paths below Root.
func (c *Config) RootLayout() layout.Root { return layout.Root(c.Root) }

// StateLayout returns the paths below State.
func (c *Config) StateLayout() layout.State { return layout.State(c.State) }

// ReadFile applies the settings of a YAML file to c, and then those of the files in the directory of that name with .d behind it, in
// the order of their names: programs write there what is not to be lost when somebody else replaces the file. Of maps (receivers, handlers
// of runtimes, devices) the names of all files count; of any other setting the last. An unknown name is an error.
func (c *Config) ReadFile(path string) error {
	more, err := filepath.Glob(globbed.Replace(path) + ".d/*.yaml")
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	from := map[string]string{} // in which file a name of a map is
	for i, file := range append([]string{path}, more...) {
		receivers, handlers, devices := c.NotifyReceivers, c.RuntimeHandlers, c.Devices
		c.NotifyReceivers, c.RuntimeHandlers, c.Devices = nil, nil, nil
		if err := c.readOne(file); err != nil {
			return err
		}
		if i == 0 { // which takes the place of the defaults
			if c.NotifyReceivers == nil {
				c.NotifyReceivers = receivers
			}
			if c.RuntimeHandlers == nil {
				c.RuntimeHandlers = handlers
			}
			if c.Devices == nil {
				c.Devices = devices
			}
			receivers, handlers, devices = nil, nil, nil
		}
		if err := errors.Join(
			merge("notify-receivers", &c.NotifyReceivers, receivers, from, file), merge("runtime-handlers", &c.RuntimeHandlers, handlers, from, file),
			merge("devices", &c.Devices, devices, from, file),
		); err != nil {
			return err
		}
	}
	return nil
}

// merge adds what files before have in a map. A name that two files have is an error: one of them would not count.
func merge[M ~map[K]V, K ~string, V any](setting string, is *M, before M, from map[string]string, file string) error {
	for _, name := range slices.Sorted(maps.Keys(*is)) {
		id := setting + ": " + string(name)
		if first, twice := from[id]; twice {
			return fmt.Errorf("config %s: %s is in %s already", file, id, first)
		}
		from[id] = file
	}
	if *is == nil {
		*is = before
		return nil
	}
	maps.Copy(*is, before)
	return nil
}

// globbed quotes what has a meaning in patterns.
var globbed = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

func (c *Config) readOne(path string) error {
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
			if strings.HasSuffix(wrong.Error(), fmt.Sprintf("unknown field %q", name)) {
				return fmt.Errorf("line %d: there is no setting %s; jobd config prints all", settings[i].Line, name)
			}
			return fmt.Errorf("line %d: %s: %w", settings[i].Line, name, wrong)
		}
	}
	return err
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
