package oci

import (
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// isCut reports whether s has a NUL byte. The kernel takes a string to end there, and so do OCI runtimes written in C: of a
// password only the beginning would arrive, without a word.
func isCut(s string) bool { return strings.IndexByte(s, 0) >= 0 }

func errCut(format string, args ...any) error {
	return invalid(format+" has a NUL byte, at which the kernel would cut it", args...)
}

// CheckCommand returns an error for a command that the kernel would cut.
func CheckCommand(args []string) error {
	for i, arg := range args {
		if isCut(arg) {
			return errCut("argument %d of the command, %q,", i, arg)
		}
	}
	return nil
}

// CheckTexts returns an error that names what the kernel would cut of a spec that is complete.
func CheckTexts(spec *specs.Spec) error {
	if err := CheckCommand(spec.Process.Args); err != nil {
		return err
	}
	for _, entry := range spec.Process.Env {
		if isCut(entry) {
			name, _, _ := strings.Cut(entry, "=")
			return errCut("variable %q", name)
		}
	}
	for what, s := range map[string]string{
		"working directory": spec.Process.Cwd,
		"user of the image": spec.Process.User.Username,
		"AppArmor profile":  spec.Process.ApparmorProfile,
		"SELinux label":     spec.Process.SelinuxLabel,
		"mount label":       spec.Linux.MountLabel,
		"host name":         spec.Hostname,
	} {
		if isCut(s) {
			return errCut("the %s %q", what, s)
		}
	}
	for what, list := range map[string]map[string]string{"sysctl": spec.Linux.Sysctl, "annotation": spec.Annotations} {
		for name, value := range list {
			if isCut(name) || isCut(value) {
				return errCut("%s %q", what, name)
			}
		}
	}
	for _, m := range spec.Mounts {
		if isCut(m.Destination) || isCut(m.Source) {
			return errCut("the mount of %q at %q", m.Source, m.Destination)
		}
	}
	for _, d := range spec.Linux.Devices {
		if isCut(d.Path) {
			return errCut("the path of device %q", d.Path)
		}
	}
	return nil
}
