package oci

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

func TestCapabilities(t *testing.T) {
	change := func(add, drop []corev1.Capability) func(*Input) {
		return context(&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: add, Drop: drop}})
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		has    []string
		hasNot []string
	}{
		{"the default ones", nil, []string{"CAP_CHOWN", "CAP_KILL"}, []string{"CAP_SYS_ADMIN"}},
		{"one more", change([]corev1.Capability{"SYS_ADMIN"}, nil), []string{"CAP_SYS_ADMIN", "CAP_CHOWN"}, []string{"CAP_NET_ADMIN"}},
		{"a name with its prefix", change([]corev1.Capability{"CAP_SYS_ADMIN"}, nil), []string{"CAP_SYS_ADMIN"}, nil},
		{"one less", change(nil, []corev1.Capability{"KILL"}), []string{"CAP_CHOWN"}, []string{"CAP_KILL"}},
		{"all but what is added", change([]corev1.Capability{"KILL"}, []corev1.Capability{"ALL"}), []string{"CAP_KILL"}, []string{"CAP_CHOWN"}},
		{
			"all that the host has but what is dropped", change([]corev1.Capability{"ALL"}, []corev1.Capability{"KILL"}),
			[]string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN"}, []string{"CAP_KILL", "CAP_SYS_RESOURCE"},
		},
		{"without NET_RAW by default", func(in *Input) { in.DropNetRaw = true }, []string{"CAP_CHOWN"}, []string{"CAP_NET_RAW"}},
		{"without NET_RAW by default, which is added", func(in *Input) {
			change([]corev1.Capability{"NET_RAW"}, nil)(in)
			in.DropNetRaw = true
		}, []string{"CAP_CHOWN", "CAP_NET_RAW"}, nil},
		{"without MKNOD by default", func(in *Input) { in.DropMknod = true }, []string{"CAP_CHOWN"}, []string{"CAP_MKNOD"}},
		{"with MKNOD by default", nil, []string{"CAP_MKNOD"}, nil},
		{"none that the host does not have", change([]corev1.Capability{"SYS_RESOURCE"}, nil), []string{"CAP_CHOWN"}, []string{"CAP_SYS_RESOURCE"}},
		{
			"all that the host has when privileged", context(&corev1.SecurityContext{Privileged: ptr(true)}),
			[]string{"CAP_SYS_ADMIN"}, []string{"CAP_SYS_RESOURCE"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			caps := specOf(t, c.change).Process.Capabilities
			for _, set := range [][]string{caps.Bounding, caps.Effective, caps.Permitted} {
				for _, name := range c.has {
					if !slices.Contains(set, name) {
						t.Errorf("%s is missing", name)
					}
				}
				for _, name := range c.hasNot {
					if slices.Contains(set, name) {
						t.Errorf("%s is there", name)
					}
				}
			}
			if len(caps.Inheritable)+len(caps.Ambient) > 0 {
				t.Error("some pass to programs of other users")
			}
		})
	}
}

func TestSecurity(t *testing.T) {
	plain := specOf(t, nil)
	strict := specOf(t, context(&corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true)}))
	profile := func(t corev1.SeccompProfileType) *corev1.PodSecurityContext {
		return &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: t}}
	}
	confined := specOf(t, func(in *Input) { in.Pod.Spec.SecurityContext = profile(corev1.SeccompProfileTypeRuntimeDefault) })
	byDefault := specOf(t, func(in *Input) { in.SeccompDefault = true })
	unconfined := specOf(t, func(in *Input) {
		in.SeccompDefault = true
		in.Pod.Spec.SecurityContext = profile(corev1.SeccompProfileTypeUnconfined)
	})
	privileged := specOf(t, func(in *Input) {
		in.SeccompDefault = true
		in.Host.Devices = []specs.LinuxDevice{{Path: "/dev/fuse"}}
		in.Container.SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
	})
	for _, c := range []struct {
		rule string
		ok   bool
	}{
		{"a container may gain privileges unless told otherwise", !plain.Process.NoNewPrivileges},
		{"allowPrivilegeEscalation false forbids it", strict.Process.NoNewPrivileges},
		{"the root is writable unless told otherwise", !plain.Root.Readonly && strict.Root.Readonly},
		{"no seccomp profile unless asked for", plain.Linux.Seccomp == nil},
		{"RuntimeDefault takes the default profile", confined.Linux.Seccomp != nil},
		{"with SeccompDefault it is taken without asking", byDefault.Linux.Seccomp != nil},
		{"Unconfined takes none", unconfined.Linux.Seccomp == nil},
		{"parts of /proc are masked", slices.Contains(plain.Linux.MaskedPaths, "/proc/kcore") && slices.Contains(plain.Linux.ReadonlyPaths, "/proc/sys")},
		{"no device but the usual ones", len(plain.Linux.Devices) == 0 && !plain.Linux.Resources.Devices[0].Allow},
		{"privileged has nothing masked", len(privileged.Linux.MaskedPaths)+len(privileged.Linux.ReadonlyPaths) == 0},
		{"privileged has no seccomp profile", privileged.Linux.Seccomp == nil},
		{"privileged has the host's devices", len(privileged.Linux.Devices) == 1 && privileged.Linux.Resources.Devices[0].Allow},
		{"crun 1.8 takes the version", plain.Version == "1.0.2"},
	} {
		if !c.ok {
			t.Errorf("not so: %s", c.rule)
		}
	}
}
