package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/auditlog"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/internal/engine"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/internal/quantity"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/userns"
)

// resourcePids names processes and threads in SystemReserved.
const resourcePids corev1.ResourceName = "pid"

// maxSocketPath is the kernel's limit; without this check a bind fails with nothing but "invalid argument".
const maxSocketPath = 107

// Complete fills in what follows from other settings, and checks everything.
func (c *Config) Complete() error {
	for _, check := range []func() error{
		c.completeDirs, c.completePaths, c.completeManifests,
		c.checkListen, c.checkRuntime, c.checkNetwork, c.checkPods, c.checkStorage, c.checkKept, c.checkAudit, c.checkNotify, c.checkShutdown,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkNotify() error {
	if err := c.NotifyReceivers.Check(); err != nil {
		return fmt.Errorf("notify-receivers: %w", err)
	}
	return nil
}

// maxShutdown is longer than anybody lets a machine wait: more is a mistake of units.
const maxShutdown = 24 * time.Hour

func (c *Config) checkShutdown() error {
	if d := c.ShutdownGracePeriod.Duration; d < 0 || d > maxShutdown {
		return fmt.Errorf("shutdown-grace-period: %v is not from 0 to %v", d, maxShutdown)
	}
	return nil
}

func (c *Config) completeDirs() error {
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
	return nil
}

func (c *Config) completePaths() error {
	if c.Socket == "" {
		c.Socket = c.StateLayout().Socket()
	}
	if c.RegistryHosts == "" {
		c.RegistryHosts = c.RootLayout().RegistryHosts()
	}
	if c.UsersSocket == "" {
		c.UsersSocket = layout.UsersSocket(c.Socket)
	}
	if err := c.Users.Check(); err != nil {
		return fmt.Errorf("users: %w", err)
	}
	for setting, path := range map[string]string{"socket": c.Socket, "users-socket": c.UsersSocket} {
		if len(path) > maxSocketPath && (setting == "socket" || len(c.Users) > 0) {
			return fmt.Errorf("%s: %s: a unix socket's path has at most %d characters", setting, path, maxSocketPath)
		}
	}
	if c.UsersSocket == c.Socket {
		return fmt.Errorf("users-socket: %s is the socket of administrators", c.Socket)
	}
	return nil
}

func (c *Config) checkListen() error {
	if c.Listen == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("listen: %s is not a loopback address, so other machines could reach it: "+
			"use 127.0.0.1:%s, and reach it from another machine with: ssh -L %s:127.0.0.1:%s HOST", host, port, port, port)
	}
	return nil
}

func (c *Config) checkRuntime() error {
	if err := oneOf("runtime", c.Runtime, "containerd", "simulated"); err != nil {
		return err
	}
	if c.RuntimeRequestTimeout.Duration <= 0 {
		return errors.New("runtime-request-timeout must be above 0")
	}
	if err := c.RuntimeHandlers.check(); err != nil {
		return fmt.Errorf("runtime-handlers: %w", err)
	}
	return nil
}

func (c *Config) checkNetwork() error {
	if c.Network != string(network.Auto) {
		if err := oneOf("network", c.Network, string(network.Bridge), string(network.Host), string(network.None)); err != nil {
			return err
		}
	}
	_, err := c.ServiceAddresses()
	if err == nil {
		_, err = c.NodePorts()
	}
	return err
}

func (c *Config) checkPods() error {
	if c.PodBackoffBase.Duration <= 0 || c.PodBackoffCap.Duration < c.PodBackoffBase.Duration {
		return errors.New("pod-backoff-base must be above 0, and pod-backoff-cap not below it")
	}
	if err := oneOf("user-namespaces", c.UserNamespaces, UserNamespacesPod, UserNamespacesDefault); err != nil {
		return err
	}
	if c.UserNamespaces == UserNamespacesDefault && network.Mode(c.Network) == network.Host {
		return errors.New("user-namespaces default needs pods with a network of their own, which network host rules out")
	}
	if c.UserNamespaceRange != "" {
		if _, err := userns.Parse(c.UserNamespaceRange); err != nil {
			return fmt.Errorf("user-namespace-range: %w", err)
		}
	}
	if err := oneOf("queue-order", c.QueueOrder, QueueOrderAge, QueueOrderFair); err != nil {
		return err
	}
	if err := oneOf("fair-share-by", c.FairShareBy, FairShareByNamespace, FairShareByCreator); err != nil {
		return err
	}
	if c.FairShareHalfLife.Duration < time.Minute {
		return errors.New("fair-share-half-life must be at least 1m")
	}
	if c.StarvationAfter.Duration < 0 {
		return errors.New("starvation-after must not be negative")
	}
	if c.MaxPods < 1 {
		return errors.New("max-pods must be at least 1")
	}
	if c.PidsLimit < -1 || c.PodMaxPids < 0 {
		return errors.New("pids-limit must not be below -1, and pod-max-pids not below 0")
	}
	if err := oneOf("devices-in-use", c.DevicesInUse, DevicesInUseWait, DevicesInUseIgnore); err != nil {
		return err
	}
	if err := c.Devices.check(); err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	_, err := c.Resources()
	if err == nil {
		_, err = c.Reserved()
	}
	if err == nil {
		_, _, err = c.PodsWeights()
	}
	if err == nil {
		_, err = c.PodSecurityPolicy()
	}
	if err == nil {
		_, err = c.Sysctls()
	}
	return err
}

func (c *Config) checkStorage() error {
	if err := oneOf("unknown-storage-class", c.UnknownStorageClass, UnknownStorageClassDefault, UnknownStorageClassWait); err != nil {
		return err
	}
	if c.EvictionPressureTransitionPeriod.Duration < 0 {
		return errors.New("eviction-pressure-transition-period must not be below 0")
	}
	_, err := c.Eviction()
	if err == nil {
		_, err = c.ImageGC()
	}
	if err == nil {
		_, err = c.Engines()
	}
	return err
}

func (c *Config) checkKept() error {
	switch {
	case c.JobTTL.Duration < 0 || c.FailedJobTTL.Duration < 0:
		return errors.New("job-ttl and failed-job-ttl must not be below 0")
	case c.EventTTL.Duration <= 0:
		return errors.New("event-ttl must be above 0")
	case c.KeptLogsAge.Duration < 0:
		return errors.New("kept-logs-age must not be below 0")
	case c.HistoryAge.Duration < 0:
		return errors.New("history-age must not be below 0")
	case c.ContainerLogMaxFiles < 2:
		return errors.New("container-log-max-files must be at least 2")
	}
	_, err := c.History()
	if err == nil {
		_, _, err = c.LogSizes()
	}
	return err
}

func (c *Config) checkAudit() error {
	audit := c.Audit()
	return audit.Check()
}

// oneOf says that the value of a setting is not known, unless it is among these.
func oneOf(setting, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	last := len(known) - 1
	return fmt.Errorf("%s: %q is not known: %s or %s", setting, value, strings.Join(known[:last], ", "), known[last])
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
		q, err := quantity.Parse(amount)
		if !ok || name == "" || err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is not of the form cpu=4", setting, part)
		}
		list[corev1.ResourceName(name)] = q
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

// Engines returns what LocalImages names.
func (c *Config) Engines() ([]engine.Engine, error) {
	all, err := engine.Parse(c.LocalImages)
	if err != nil {
		return nil, fmt.Errorf("local-images: %w", err)
	}
	return all, nil
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
	q, err := quantity.Parse(size)
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
func (c *Config) Eviction() (eviction.Thresholds, error) {
	thresholds, err := eviction.Parse(c.EvictionHard)
	if err != nil {
		return thresholds, fmt.Errorf("eviction-hard: %w", err)
	}
	return thresholds, nil
}

// TTL returns for how long finished Jobs are kept that do not say so themselves.
func (c *Config) TTL() job.TTL {
	return job.TTL{Complete: c.JobTTL.Duration, Failed: c.FailedJobTTL.Duration}
}
