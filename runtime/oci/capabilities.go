package oci

import (
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// defaultCapabilities are those of a container that asks for nothing: those that Kubernetes' container runtimes give.
var defaultCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE", "CAP_MKNOD",
}

// capabilities returns the default ones, without those that are dropped and with those that are added; ALL means those
// of the host. Capabilities that the host process lacks cannot be given.
func capabilities(in Input) *specs.LinuxCapabilities {
	have := in.Host.Capabilities
	want := slices.Clone(defaultCapabilities)
	want = slices.DeleteFunc(want, func(c string) bool {
		return in.DropNetRaw && c == "CAP_NET_RAW" || in.DropMknod && c == "CAP_MKNOD"
	})
	if privileged(in.Container) {
		want = slices.Clone(have)
	} else if caps := security(in.Container).Capabilities; caps != nil {
		var dropped, added []string
		for _, c := range caps.Drop {
			dropped = append(dropped, capabilityName(string(c)))
		}
		for _, c := range caps.Add {
			added = append(added, capabilityName(string(c)))
		}
		if slices.Contains(added, "CAP_ALL") {
			want = slices.Clone(have)
		}
		if slices.Contains(dropped, "CAP_ALL") {
			want = nil
		}
		want = slices.DeleteFunc(want, func(c string) bool { return slices.Contains(dropped, c) })
		for _, c := range added {
			if slices.Contains(have, c) && !slices.Contains(want, c) { // so that the list stays as short as that of the host
				want = append(want, c)
			}
		}
	}
	want = slices.DeleteFunc(want, func(c string) bool { return !slices.Contains(have, c) })
	return &specs.LinuxCapabilities{Bounding: want, Effective: want, Permitted: want}
}

func capabilityName(name string) string {
	name = strings.ToUpper(name)
	if strings.HasPrefix(name, "CAP_") {
		return name
	}
	return "CAP_" + name
}
