package oci

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
)

// safeSysctls are namespaced and cannot hurt the host: those that a kubelet allows by default.
var safeSysctls = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_notsent_lowat",
}

// Sysctls are the kernel parameters that pods may set (PodSecurityContext.Sysctls): the safe ones, and those that an
// administrator allows. The zero value allows the safe ones.
type Sysctls struct {
	// names and prefixes are allowed beyond the safe ones, in the spelling with dots.
	names    map[string]bool
	prefixes []string
}

const maxSysctlPattern = 253

var sysctlPattern = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`)

// ParseSysctls returns the safe sysctls with those of some patterns, in the syntax of a kubelet's
// --allowed-unsafe-sysctls: a name, or the beginning of names followed by an asterisk. A name that no namespace of the
// kernel is known for is an error, since a pod would set it for the whole host.
func ParseSysctls(patterns []string) (Sysctls, error) {
	s := Sysctls{names: map[string]bool{}}
	for _, pattern := range patterns {
		if len(pattern) > maxSysctlPattern || !sysctlPattern.MatchString(pattern) {
			return s, fmt.Errorf("%q is not a sysctl such as net.core.somaxconn, or a pattern such as net.ipv4.*", pattern)
		}
		of, name, prefix := sysctl.GetNamespace(pattern)
		switch {
		case of == sysctl.UnknownNamespace:
			return s, fmt.Errorf("the sysctls %q are not known to be namespaced", name)
		case prefix:
			s.prefixes = append(s.prefixes, name)
		default:
			s.names[name] = true
		}
	}
	for _, name := range safeSysctls {
		s.names[name] = true
	}
	return s, nil
}

// Check returns why a pod may not have its sysctls, in a kubelet's words; nil if it may.
func (s Sysctls) Check(pod *corev1.Pod) error {
	for _, asked := range podSecurity(pod).Sysctls {
		name := sysctl.NormalizeName(asked.Name)
		if !s.allows(name) {
			return fmt.Errorf("forbidden sysctl: %q not allowlisted", name)
		}
		of, _, _ := sysctl.GetNamespace(name)
		if of == sysctl.IPCNamespace && pod.Spec.HostIPC || of == sysctl.NetNamespace && pod.Spec.HostNetwork ||
			of == sysctl.UserNamespace && (pod.Spec.HostUsers == nil || *pod.Spec.HostUsers) {
			return fmt.Errorf("forbidden sysctl: %q not allowed with host %s enabled", name, of)
		}
	}
	return nil
}

func (s Sysctls) allows(name string) bool {
	if s.names == nil {
		s, _ = ParseSysctls(nil)
	}
	if s.names[name] {
		return true
	}
	for _, prefix := range s.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// UnprivilegedNetwork returns the sysctls with which any user of a network namespace may bind all ports and, unless the
// namespace belongs to a pod's own user namespace, send pings: those that containerd sets for a cluster's pods. The
// sysctls of a pod itself prevail over them.
func UnprivilegedNetwork(ownUsers bool) map[string]string {
	out := map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"}
	if !ownUsers {
		out["net.ipv4.ping_group_range"] = "0 2147483647"
	}
	return out
}

func sysctls(in Input) (map[string]string, error) {
	if err := in.Sysctls.Check(in.Pod); err != nil {
		return nil, fmt.Errorf("%w: %w", err, errdefs.ErrPermissionDenied)
	}
	var out map[string]string
	if !in.Pod.Spec.HostNetwork && in.Namespaces[specs.NetworkNamespace] == "" {
		out = UnprivilegedNetwork(in.Users != nil) // the namespace is made with the container, so nobody has set them
	}
	for _, s := range podSecurity(in.Pod).Sysctls {
		if out == nil {
			out = map[string]string{}
		}
		out[sysctl.NormalizeName(s.Name)] = s.Value
	}
	return out, nil
}
