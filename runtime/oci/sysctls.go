package oci

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
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
}

func sysctls(in Input) (map[string]string, error) {
	var out map[string]string
	for _, s := range podSecurity(in.Pod).Sysctls {
		name := strings.ReplaceAll(s.Name, "/", ".")
		host := in.Pod.Spec.HostNetwork && strings.HasPrefix(name, "net.") ||
			in.Pod.Spec.HostIPC && strings.HasPrefix(name, "kernel.")
		if host || !slices.Contains(safeSysctls, name) {
			return nil, fmt.Errorf("forbidden sysctl: %q not allowlisted: %w", s.Name, errdefs.ErrPermissionDenied)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = s.Value
	}
	return out, nil
}
