package persistent

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// NFS is a directory that a server exports (NFSVolumeSource).
type NFS struct {
	Server   string // a name or an address
	Path     string // absolute
	Options  []string
	ReadOnly bool
}

// MountNFS ensures that an export is mounted at a directory, which it creates. It waits as long as mount.nfs tries, or
// until the context ends.
func MountNFS(ctx context.Context, nfs NFS, at string) error {
	source, err := nfs.source()
	if err != nil {
		return err
	}
	if mounted, err := isMounted(at); err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	options := append([]string{}, nfs.Options...)
	if nfs.ReadOnly {
		options = append(options, "ro")
	}
	args := []string{source, at}
	if len(options) > 0 {
		args = append(args, "-o", strings.Join(options, ","))
	}
	return runProgram(ctx, "nfs-common", "mount.nfs", args...)
}

// UnmountNFS unmounts an export, whether its server answers or not, and removes the directory. It is no error if it is
// not mounted.
func UnmountNFS(at string) error {
	for {
		if mounted, err := isMounted(at); err != nil {
			return err
		} else if !mounted {
			return removeEmpty(at)
		}
		if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", at, err)
		}
	}
}

// source is what mount.nfs takes, which would take what begins with a dash for an option.
func (n NFS) source() (string, error) {
	invalid := func(what, value string) (string, error) {
		return "", fmt.Errorf("nfs: %s %q: %w", what, value, errdefs.ErrInvalidArgument)
	}
	server := n.Server
	switch {
	case server == "", strings.HasPrefix(server, "-"), strings.ContainsAny(server, "/ \t\n\x00"):
		return invalid("server", server)
	case !strings.HasPrefix(n.Path, "/"), strings.Contains(n.Path, "\x00"):
		return invalid("path", n.Path)
	}
	for _, option := range n.Options {
		if option == "" || strings.ContainsAny(option, "\x00") {
			return invalid("mount option", option)
		}
	}
	if strings.Contains(server, ":") && !strings.HasPrefix(server, "[") {
		server = "[" + server + "]" // an IPv6 address
	}
	return server + ":" + n.Path, nil
}
