package oci

import (
	"cmp"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

func namespaces(in Input) ([]specs.LinuxNamespace, error) {
	pod := &in.Pod.Spec
	out := []specs.LinuxNamespace{{Type: specs.MountNamespace}}
	add := func(t specs.LinuxNamespaceType) {
		out = append(out, specs.LinuxNamespace{Type: t, Path: in.Namespaces[t]})
	}
	if isTrue(pod.ShareProcessNamespace) && in.Namespaces[specs.PIDNamespace] == "" {
		return nil, fmt.Errorf("shareProcessNamespace: there is no namespace to share: %w", errdefs.ErrFailedPrecondition)
	}
	if own := in.Users != nil; pod.HostUsers != nil && *pod.HostUsers == own || own != (in.Namespaces[specs.UserNamespace] != "") {
		return nil, fmt.Errorf("hostUsers: there is no such user namespace: %w", errdefs.ErrFailedPrecondition)
	}
	if in.Users != nil {
		add(specs.UserNamespace)
	}
	if !pod.HostPID {
		add(specs.PIDNamespace)
	}
	if !pod.HostIPC {
		add(specs.IPCNamespace)
	}
	if !pod.HostNetwork {
		add(specs.NetworkNamespace)
		add(specs.UTSNamespace)
	}
	// In a user namespace of its own nobody may mount the host's cgroups. With cgroup v1 containers are in the host's namespace, as with
	// containerd, but not what a user of the machine runs, who is to see no other one's groups.
	if (in.Host.CgroupV2 || in.Command != nil) && (!privileged(in.Container) || in.Users != nil) {
		out = append(out, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return out, nil
}

// mapping returns a list of the one mapping of users, or of groups.
func mapping(in Input) []specs.LinuxIDMapping { return []specs.LinuxIDMapping{*in.Users} }

// Hostname returns the hostname that the containers of a pod see: spec.hostnameOverride (KEP-4762), else spec.hostname,
// else the pod's name, cut to what the kernel takes. In the host's network it is the node's, and with setHostnameAsFQDN
// the whole name.
func Hostname(pod *corev1.Pod, nodeName string) string {
	if pod.Spec.HostNetwork {
		return nodeName
	}
	if isTrue(pod.Spec.SetHostnameAsFQDN) {
		if name := FQDN(pod); name != "" {
			return name
		}
	}
	return ShortHostname(pod)
}

// ShortHostname returns the pod's own name without the domain of its subdomain.
func ShortHostname(pod *corev1.Pod) string {
	name := cmp.Or(pod.Spec.Hostname, pod.Name)
	if override := pod.Spec.HostnameOverride; override != nil {
		name = *override
	}
	if len(name) > 63 {
		name = name[:63]
		for last := name[len(name)-1]; last == '-' || last == '.'; last = name[len(name)-1] {
			name = name[:len(name)-1]
		}
	}
	return name
}

// ClusterDomain is the domain that pods and Services have their names in.
const ClusterDomain = "cluster.local"

// maxHostname is what the kernel takes.
const maxHostname = 64

// FQDN returns the whole name of a pod that has a subdomain, and "" for others. A pod that overrides its host name has no
// domain.
func FQDN(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork || pod.Spec.Subdomain == "" || pod.Spec.HostnameOverride != nil {
		return ""
	}
	return ShortHostname(pod) + "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + ClusterDomain
}

// specHostname returns "" where the UTS namespace is not the pod's to name.
func specHostname(in Input) (string, error) {
	if in.Pod.Spec.HostNetwork {
		return "", nil
	}
	name := Hostname(in.Pod, in.NodeName)
	if len(name) > maxHostname {
		return "", fmt.Errorf(
			"setHostnameAsFQDN: %s is longer than the %d characters that a host name can have: %w", name, maxHostname,
			errdefs.ErrInvalidArgument,
		)
	}
	return name, nil
}
