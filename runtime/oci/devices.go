package oci

import "github.com/opencontainers/runtime-spec/specs-go"

// devices returns the devices beyond those that every OCI runtime creates (null, zero, full, random, urandom, tty,
// ...): all of the host's for a privileged container.
func devices(in Input) []specs.LinuxDevice {
	if privileged(in.Container) {
		return in.Host.Devices
	}
	return nil
}

// deviceRules forbids all other devices; the OCI runtime itself allows those that it creates.
func deviceRules(in Input) []specs.LinuxDeviceCgroup {
	return []specs.LinuxDeviceCgroup{{Allow: privileged(in.Container), Access: "rwm"}}
}
