package oci

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// mounts returns those of every container, then the pod's files, then volumes. One that a volume covers is left out,
// and the rest are in the order of depth, so that none hides another. What the kernel shows comes last, with what is mounted
// there: a volume to which a symlink leads, of the image or of a volume around it, is then covered by it.
func mounts(in Input) []specs.Mount {
	sys := "ro"
	if privileged(in.Container) {
		sys = "rw"
	}
	base := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{
			Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"},
		},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", sys}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", sys}},
	}
	for i := range base {
		// A new sysfs needs a network namespace of its own; without one the host's is shown. A new mqueue shows the
		// queues of the IPC namespace that it is mounted in, the host's too, which need not have it mounted.
		switch {
		case base[i].Destination == "/sys" && in.Pod.Spec.HostNetwork:
			base[i] = specs.Mount{Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"rbind", "nosuid", "noexec", "nodev", sys}}
		case base[i].Destination == "/dev/shm" && in.Pod.Spec.HostIPC:
			base[i] = specs.Mount{Destination: "/dev/shm", Type: "bind", Source: "/dev/shm", Options: []string{"rbind"}}
		case base[i].Destination == "/dev/shm" && in.SharedMemory != "":
			base[i] = specs.Mount{
				Destination: "/dev/shm", Type: "bind", Source: in.SharedMemory,
				Options: []string{"bind", "rprivate", "nosuid", "noexec", "nodev"},
			}
			if in.Users != nil {
				base[i].UIDMappings, base[i].GIDMappings = mapping(in), mapping(in)
			}
		}
	}
	files, volumes := fileMounts(in), slices.Concat(in.Mounts, in.Declared)
	if in.Users != nil {
		for _, list := range [][]specs.Mount{files, volumes} {
			for i := range list {
				list[i].UIDMappings, list[i].GIDMappings = mapping(in), mapping(in)
			}
		}
	}
	out := append(base, files...)
	out = slices.DeleteFunc(out, func(m specs.Mount) bool {
		return slices.ContainsFunc(volumes, func(v specs.Mount) bool { return path.Clean(v.Destination) == m.Destination })
	})
	out = append(out, volumes...)
	if in.Command != nil {
		out = append(out, in.Command.mounts()...)
	}
	slices.SortStableFunc(out, func(a, b specs.Mount) int {
		return cmp.Or(cmp.Compare(ofKernel(a.Destination), ofKernel(b.Destination)), cmp.Compare(depth(a.Destination), depth(b.Destination)))
	})
	return out
}

// ofKernel returns 1 for a path at or below /proc, /dev or /sys, and 0 for all others.
func ofKernel(p string) int {
	first, _, _ := strings.Cut(path.Clean("/" + p)[1:], "/")
	if first == "proc" || first == "dev" || first == "sys" {
		return 1
	}
	return 0
}

// kernelPlaces refuses volumes in the places in which an OCI runtime finds what it masks, opens and writes to as root before the
// container is confined: with a symlink for /dev/null or a terminal, runc does so in any file of the kernel (CVE-2025-31133,
// CVE-2025-52565). The host's own directory of that name may be there, and a privileged container needs no symlinks for that.
func kernelPlaces(in Input) error {
	if privileged(in.Container) {
		return nil
	}
	for _, m := range slices.Concat(in.Mounts, in.Declared) {
		at := path.Clean("/" + m.Destination)
		taken := slices.Contains([]string{"/dev", "/dev/pts", "/proc", "/sys", "/sys/fs"}, at) || strings.HasPrefix(at, "/proc/")
		if at == "/" || taken && m.Source != at {
			return fmt.Errorf("volume mount %s: the kernel's own files are there, or lead there: %w", m.Destination, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// spreads refuses mounts of a user namespace that would have to be visible on the host: the kernel keeps them to
// itself.
func spreads(in Input) error {
	for _, m := range in.Mounts {
		if in.Users != nil && slices.Contains(m.Options, "rshared") {
			return fmt.Errorf("volume mount %s: mountPropagation Bidirectional is not possible in a user namespace of the pod's own "+
				"(hostUsers: true gives it the host's): %w", m.Destination, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// rootPropagation returns how mounts of the host's tree get into the container's, where a volume asks for that: the
// runtime would cut it off otherwise.
func rootPropagation(mounts []specs.Mount) string {
	out := ""
	for _, m := range mounts {
		switch {
		case slices.Contains(m.Options, "rshared"):
			return "rshared"
		case slices.Contains(m.Options, "rslave"):
			out = "rslave"
		}
	}
	return out
}

func depth(p string) int {
	if p = path.Clean(p); p == "/" {
		return 0
	}
	return strings.Count(p, "/")
}

// fileMounts returns the mounts of the pod's files. On a read-only root they are read-only too, except for the
// termination message.
func fileMounts(in Input) []specs.Mount {
	var out []specs.Mount
	add := func(source, destination, mode string) {
		if source != "" && destination != "" {
			out = append(out, specs.Mount{Destination: path.Clean(destination), Type: "bind", Source: source, Options: []string{"bind", "rprivate", mode}})
		}
	}
	mode := "rw"
	if readOnlyRoot(in.Container) {
		mode = "ro"
	}
	add(in.Files.Hosts, "/etc/hosts", mode)
	add(in.Files.Hostname, "/etc/hostname", mode)
	add(in.Files.ResolvConf, "/etc/resolv.conf", mode)
	add(in.Files.TerminationLog, in.Container.TerminationMessagePath, "rw")
	return out
}
