package server

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// nulls makes files like /dev/null, each a separate one: an OCI runtime makes a container's user the owner of its standard
// streams, and a container's root may own them already. An owner may change a file's mode, and no pod may change that of the
// host's own /dev/null, which every program of the machine needs.
type nulls struct{ dir int } // a file system of its own

func newNulls() (nulls, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nulls{}, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return nulls{}, os.NewSyscallError("fsconfig", err)
	}
	dir, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	return nulls{dir}, os.NewSyscallError("fsmount", err)
}

// open makes and opens one that belongs to the root of users, nil: to the host's. Its only name, which nobody else may use
// meanwhile, is gone when open returns.
func (n nulls) open(name string, of *users) (_ *os.File, err error) {
	if err := unix.Mknodat(n.dir, name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		return nil, fmt.Errorf("null device: %w", err)
	}
	fd, err := unix.Openat(n.dir, name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err = errors.Join(err, unix.Unlinkat(n.dir, name, 0)); err == nil {
		err = errors.Join(unix.Fchmod(fd, 0o666), of.own(fd)) // whatever the umask
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("null device: %w", err)
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
}
