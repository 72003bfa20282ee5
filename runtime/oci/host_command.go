package oci

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/runtime/hostexec"
)

// HostCommand is what a container of the reserved image gets instead of an image: the host's own files, and the user of the host that it
// runs as.
type HostCommand struct {
	// Files is the directory at which its OCI runtime finds the host's files: layout.State.Host.
	Files string
	// Dirs are the directories in the host's root, by their names, each with the options of its mount.
	Dirs map[string][]string
	// Program is jobd-shim, which becomes the command.
	Program string
	User    specs.User
	// Env has what a login would set: HOME, USER ...
	Env []string
	// Root says that it may have more than a user: what its securityContext gives.
	Root bool
}

// ownDirs are those in the root of a container that it has of its own, whatever the host has there.
var ownDirs = []string{"/proc", "/dev", "/sys", hostimage.TmpDir, hostimage.VolumesDir}

// OwnInRoot returns the names of what a container that runs a command of the host has of its own in its root.
func OwnInRoot() []string {
	var names []string
	for _, dir := range ownDirs {
		names = append(names, strings.TrimPrefix(dir, "/"))
	}
	return names
}

// mounts returns those of the host's directories, and of the program. Theirs is not the type "bind": where the OCI runtime
// finds them there is nothing before, and nobody could tell that they are directories.
func (h *HostCommand) mounts() []specs.Mount {
	var out []specs.Mount
	for name, options := range h.Dirs {
		if place := "/" + name; !slices.Contains(ownDirs, place) {
			out = append(out, specs.Mount{
				Destination: place, Type: "none", Source: path.Join(h.Files, name), Options: append([]string{"rbind", "rslave"}, options...),
			})
		}
	}
	slices.SortFunc(out, func(a, b specs.Mount) int { return strings.Compare(a.Destination, b.Destination) })
	return append(out, specs.Mount{
		Destination: hostexec.Place, Type: "bind", Source: h.Program, Options: []string{"bind", "rprivate", "ro", "nosuid", "nodev"},
	})
}

// complete makes the spec of a container that of a command of the host.
func (h *HostCommand) complete(spec *specs.Spec, in Input) error {
	p := spec.Process
	p.User = h.User
	if p.User.UID == 0 && runAsNonRoot(in) {
		return invalid("container has runAsNonRoot and will run as root %s", describe(in))
	}
	p.Args, p.Cwd = hostexec.Command(cmp.Or(in.Container.WorkingDir, hostexec.Home), p.Args), "/"
	if !h.Root {
		p.NoNewPrivileges, p.Capabilities = true, &specs.LinuxCapabilities{}
	}
	spec.Root.Readonly = true // it has mount points, and nothing else
	spec.Linux.RootfsPropagation = "rslave"
	return nil
}

// Check refuses what an OCI runtime would make in the host's files, as root: a mount point below one of its directories. Nothing should
// come so far. The spec is complete, with what devices bring along.
func (h *HostCommand) Check(spec *specs.Spec) error {
	for _, m := range spec.Mounts {
		place := path.Clean("/" + m.Destination)
		first := "/" + strings.SplitN(place, "/", 3)[1]
		_, hosts := h.Dirs[first[1:]]
		inOwn := slices.Contains(ownDirs, first) && (first != hostimage.TmpDir || place == first)
		if place == "/" || !inOwn && (!hosts || place != first) {
			return fmt.Errorf("mount at %s: nothing is mounted in the files of the host: %w", m.Destination, errdefs.ErrInvalidArgument)
		}
	}
	for _, d := range spec.Linux.Devices {
		if !strings.HasPrefix(path.Clean(d.Path), "/dev/") {
			return fmt.Errorf("device %s: it is not below /dev: %w", d.Path, errdefs.ErrInvalidArgument)
		}
	}
	if spec.Hooks != nil {
		return fmt.Errorf("hooks could change the files of the host: %w", errdefs.ErrInvalidArgument)
	}
	if len(spec.Linux.UIDMappings) > 0 {
		return fmt.Errorf("hostUsers: files of the host would have other owners: %w", errdefs.ErrInvalidArgument)
	}
	return nil
}
