package persistent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/mountlist"
)

// NFS is a directory that a server exports (NFSVolumeSource).
type NFS struct {
	Server   string // a name or an address
	Path     string // absolute
	Options  []string
	ReadOnly bool
}

// nfsPatience is how long a server has to answer to a mount. One that drops all packets would hold up mount.nfs for
// minutes, and whoever waits for it.
const nfsPatience = 30 * time.Second

// MountNFS ensures that an export is mounted at a directory, which it creates. A server that does not answer within 30
// seconds is ErrUnavailable of errdefs. Once the export is mounted its server is not asked again, so that one that has
// gone silent since holds up nobody.
func MountNFS(ctx context.Context, nfs NFS, at string) error {
	return mountNFS(ctx, nfs, at, nfsPatience)
}

func mountNFS(ctx context.Context, nfs NFS, at string, patience time.Duration) error {
	source, err := nfs.source()
	if err != nil {
		return err
	}
	if mounted, err := inMountTable(at); err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	// What fails is tried again with the pod. A server of a tenant gives nobody a device or the rights of root, whom a local user of the
	// same UID would find below /proc/PID/root. Of two such options the last one counts, and an administrator may write others.
	options := []string{"retry=0", "nodev", "nosuid"}
	options = append(options, nfs.Options...)
	if nfs.ReadOnly {
		options = append(options, "ro")
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = runProgram(limited, "nfs-common", "mount.nfs", source, at, "-o", strings.Join(options, ","))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("mount.nfs: %s has not answered within %s: %w", source, patience, errdefs.ErrUnavailable)
	}
	return err
}

// inMountTable reports whether something is mounted at a path, without looking at what is mounted there: to ask a file
// system of a server that is silent blocks for ever.
func inMountTable(path string) (bool, error) {
	// The kernel names mounts by their real paths.
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	mounts, err := mountlist.Get(mountinfo.SingleEntryFilter(filepath.Join(parent, filepath.Base(path))))
	return len(mounts) > 0, err
}

// UnmountNFS unmounts an export, whether its server answers or not, and removes the directory. It is no error if it is
// not mounted.
func UnmountNFS(at string) error {
	for {
		err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // nothing is mounted there any more
			return removeEmpty(at)
		case err != nil:
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
