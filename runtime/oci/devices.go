package oci

import "github.com/opencontainers/runtime-spec/specs-go"

// devices are those beyond what every OCI runtime makes by itself (null, zero, full, random, urandom, tty, ...): all of
// the host's for a privileged container.
func devices(in Input) []specs.LinuxDevice {
	if privileged(in.Container) {
		return in.Host.Devices
	}
	return nil
}

// deviceRules forbid what is not made for the container; the runtime itself allows those that it makes.
func deviceRules(in Input) []specs.LinuxDeviceCgroup {
	return []specs.LinuxDeviceCgroup{{Allow: privileged(in.Container), Access: "rwm"}}
}
