// Package config holds what `jobd serve` can be told: defaults, the file, what follows from other settings, and checks.
// Flags and commands fill it in; the daemon and those who work on a root without one read it.
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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/layout"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/runtime/network"
)

const shimName = "jobd-shim"

// maxSocketPath is the kernel's limit; without the check a bind fails with no more than "invalid argument".
const maxSocketPath = 107

// Config is what `jobd serve` can be told, by flags or by a YAML file of the same names.
type Config struct {
	// Root keeps what must survive a reboot: the database, images, logs.
	Root string `json:"root,omitempty"`
	// State keeps what belongs to one boot of the host: sockets, shards, bundles.
	State string `json:"state,omitempty"`
	// Socket is where the API is served; State/jobd.sock unless said otherwise.
	Socket string `json:"socket,omitempty"`
	// Listen is host:port for the API over TLS; empty for none. Loopback only.
	Listen string `json:"listen,omitempty"`
	// Runtime is "containerd", or "simulated" for pods without containers.
	Runtime string `json:"runtime,omitempty"`
	// OCIRuntime is "crun", "runc" or a path; empty to choose.
	OCIRuntime string `json:"oci-runtime,omitempty"`
	// RuntimeRequestTimeout is how long one call of the OCI runtime may take, as a kubelet's setting of that name.
	RuntimeRequestTimeout metav1.Duration `json:"runtime-request-timeout,omitempty"`
	// PodBackoffBase and PodBackoffCap bound the time between a Job's failed pod and the next one.
	PodBackoffBase metav1.Duration `json:"pod-backoff-base,omitempty"`
	PodBackoffCap  metav1.Duration `json:"pod-backoff-cap,omitempty"`
	// Network is what pods get that do not ask for the host's network: "bridge", "host" or "none"; empty for a bridge
	// where that is possible, else none.
	Network string `json:"network,omitempty"`
	// MaxPods is how many pods run at a time.
	MaxPods int `json:"max-pods,omitempty"`
	// Allocatable is what pods may ask for together, by resource: "cpu=4,memory=8Gi,example.com/license=2". It
	// comes before what the machine has. Simulated pods may ask for anything unless this is set.
	Allocatable string `json:"allocatable,omitempty"`
	// CDISpecDirs are the directories of the files that describe devices, separated by commas.
	CDISpecDirs string `json:"cdi-spec-dirs,omitempty"`
	// WorkloadWithJob makes gangs of Jobs that are Indexed and run all their indexes at a time: their pods start together.
	WorkloadWithJob bool `json:"workload-with-job,omitempty"`
	// PidsLimit is how many processes and threads a container may have; 0 is no limit.
	PidsLimit int64 `json:"pids-limit,omitempty"`
	// PodMaxPids is how many processes and threads the containers of a pod may have together; 0 is no limit.
	PodMaxPids int64 `json:"pod-max-pids,omitempty"`
	// SeccompDefault applies the profile RuntimeDefault to containers that ask for none, as the kubelet's setting does.
	SeccompDefault bool `json:"seccomp-default,omitempty"`
	// DropNetRaw takes CAP_NET_RAW from containers that do not ask for it.
	DropNetRaw bool `json:"drop-net-raw,omitempty"`
	// EventTTL is how long events are kept after they were last seen.
	EventTTL metav1.Duration `json:"event-ttl,omitempty"`
	// ContainerLogMaxSize is how large the log of a container grows before it is rotated, like "10Mi", 0 is no limit;
	// ContainerLogMaxFiles is how many files of it are kept.
	ContainerLogMaxSize  string `json:"container-log-max-size,omitempty"`
	ContainerLogMaxFiles int    `json:"container-log-max-files,omitempty"`
	// KeptLogsAge is how long the logs of a Job's pods are kept after the pods are gone, at most: with the Job they go in
	// any case. KeptLogsSize is how much those of all Jobs may hold together, like "1Gi"; the oldest go first.
	KeptLogsAge  metav1.Duration `json:"kept-logs-age,omitempty"`
	KeptLogsSize string          `json:"kept-logs-size,omitempty"`
	// RegistryHosts is the directory of mirrors and certificates of registries: REGISTRY/hosts.toml, as containerd has them.
	// Root/hosts unless said otherwise.
	RegistryHosts string `json:"registry-hosts,omitempty"`
	// ImageGCHighThreshold is how full the disk of Root may get, in percent, before images that no pod uses are removed, the
	// ones that were not used for the longest time first; ImageGCLowThreshold is how full it may be then. 100 is never.
	ImageGCHighThreshold int `json:"image-gc-high-threshold,omitempty"`
	ImageGCLowThreshold  int `json:"image-gc-low-threshold,omitempty"`
	// MinimumImageTTLDuration is how long an image stays in any case after it was pulled or used; ImageMaximumGCAge is how
	// long it stays without being used, 0 is for ever.
	MinimumImageTTLDuration metav1.Duration `json:"minimum-image-ttl-duration,omitempty"`
	ImageMaximumGCAge       metav1.Duration `json:"image-maximum-gc-age,omitempty"`
	// ImageGCImported lets imported images go like those that were pulled, though no registry brings them back.
	ImageGCImported bool `json:"image-gc-imported,omitempty"`
	// EvictionHard is how little of the disk of Root may be left before no new pods start and those that take most of it are
	// evicted: "nodefs.available<1%,nodefs.inodesFree<1%" or amounts, as a kubelet has it; empty is never.
	EvictionHard string `json:"eviction-hard,omitempty"`
	// EvictionPressureTransitionPeriod is how long new pods are kept away after that was seen last.
	EvictionPressureTransitionPeriod metav1.Duration `json:"eviction-pressure-transition-period,omitempty"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `json:"log-level,omitempty"`

	// Version is that of the build, shown to clients.
	Version string `json:"-"`
	// Logger gets what the daemon has to say. Required.
	Logger *slog.Logger `json:"-"`
	// Shim is the path of jobd-shim; empty to look beside the daemon's own binary and in PATH.
	Shim string `json:"shim,omitempty"`
}

// Default is the Config of `jobd serve` without flags.
func Default() Config {
	return Config{
		Root:                  layout.DefaultRoot,
		State:                 layout.DefaultState,
		Runtime:               "containerd",
		RuntimeRequestTimeout: metav1.Duration{Duration: 2 * time.Minute},
		PodBackoffBase:        metav1.Duration{Duration: 10 * time.Second},
		PodBackoffCap:         metav1.Duration{Duration: 6 * time.Minute},
		MaxPods:               1000,
		SeccompDefault:        true,
		CDISpecDirs:           "/etc/cdi,/var/run/cdi",
		EventTTL:              metav1.Duration{Duration: time.Hour},
		ContainerLogMaxSize:   "10Mi", ContainerLogMaxFiles: 5,
		KeptLogsAge:  metav1.Duration{Duration: 7 * 24 * time.Hour},
		KeptLogsSize: "1Gi",
		// A kubelet's 85 and 80 are for a disk of its own; this one holds its user's files too.
		ImageGCHighThreshold: 95, ImageGCLowThreshold: 90,
		MinimumImageTTLDuration: metav1.Duration{Duration: 2 * time.Minute},
		// A kubelet's 10 and 5 % are for a disk of its own: on a workstation, whose disk may well be 92 % full, no pod would ever
		// start. With the last percent gone nothing works any more, and the pods' results can no longer be written.
		EvictionHard:                     "nodefs.available<1%,nodefs.inodesFree<1%",
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: 5 * time.Minute},
		LogLevel:                         "info",
	}
}

// RootLayout names what is in Root.
func (c *Config) RootLayout() layout.Root { return layout.Root(c.Root) }

// StateLayout names what is in State.
func (c *Config) StateLayout() layout.State { return layout.State(c.State) }

// ReadFile lays the settings of a YAML file over c. A name that is not known is an error.
func (c *Config) ReadFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return fmt.Errorf("config %s: %w", path, err)
	}
	return nil
}

// Complete fills in what follows from other settings and checks the rest.
func (c *Config) Complete() error {
	var err error
	for _, dir := range []*string{&c.Root, &c.State} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
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
	if c.PodBackoffBase.Duration <= 0 || c.PodBackoffCap.Duration < c.PodBackoffBase.Duration {
		return errors.New("pod-backoff-base must be above 0, and pod-backoff-cap not below it")
	}
	switch network.Mode(c.Network) {
	case network.Auto, network.Bridge, network.Host, network.None:
	default:
		return fmt.Errorf("network: %q is not known: bridge, host or none", c.Network)
	}
	if c.MaxPods < 1 {
		return errors.New("max-pods must be at least 1")
	}
	if c.PidsLimit < 0 || c.PodMaxPids < 0 {
		return errors.New("pids-limit and pod-max-pids must not be below 0")
	}
	if _, err := c.Resources(); err != nil {
		return err
	}
	if c.EventTTL.Duration <= 0 {
		return errors.New("event-ttl must be above 0")
	}
	if c.KeptLogsAge.Duration < 0 {
		return errors.New("kept-logs-age must not be below 0")
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
	if c.ContainerLogMaxFiles < 2 {
		return errors.New("container-log-max-files must be at least 2")
	}
	if c.Listen != "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("listen: %s is not a loopback address", host)
		}
	}
	return nil
}

// Resources returns what Allocatable names.
func (c *Config) Resources() (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for part := range strings.SplitSeq(c.Allocatable, ",") {
		if part == "" {
			continue
		}
		name, amount, ok := strings.Cut(part, "=")
		quantity, err := resource.ParseQuantity(amount)
		if !ok || name == "" || err != nil || quantity.Sign() < 0 {
			return nil, fmt.Errorf("allocatable: %q is not of the form cpu=4", part)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

// LogSizes returns KeptLogsSize and ContainerLogMaxSize in bytes.
func (c *Config) LogSizes() (kept, container int64, err error) {
	if kept, err = parseSize("kept-logs-size", c.KeptLogsSize); err != nil {
		return 0, 0, err
	}
	container, err = parseSize("container-log-max-size", c.ContainerLogMaxSize)
	return kept, container, err
}

func parseSize(name, size string) (int64, error) {
	q, err := resource.ParseQuantity(size)
	if err != nil || q.Sign() < 0 {
		return 0, fmt.Errorf("%s: %q is not a size, such as 10Mi", name, size)
	}
	return q.Value(), nil
}

// ImageGC returns what the settings say of the garbage collection of images, after a check.
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

// Eviction returns the thresholds in EvictionHard.
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
