package persistent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// On btrfs a directory is a subvolume, whose qgroup has the limit.

// From linux/btrfs.h.
const (
	createSubvol  = 0x5000940e // BTRFS_IOC_SUBVOL_CREATE
	destroySubvol = 0x5000940f // BTRFS_IOC_SNAP_DESTROY
	limitQgroup   = 0x8030942b // BTRFS_IOC_QGROUP_LIMIT
	fsInfo        = 0x8400941f // BTRFS_IOC_FS_INFO
	inoLookup     = 0xd0009412 // BTRFS_IOC_INO_LOOKUP

	limitReferenced = 1 // BTRFS_QGROUP_LIMIT_MAX_RFER
	rootInode       = 256
)

// subvolumeArgs is struct btrfs_ioctl_vol_args.
type subvolumeArgs struct {
	Fd   int64
	Name [4088]byte
}

// qgroupLimit is struct btrfs_ioctl_qgroup_limit_args. Qgroup 0 is that of the subvolume itself.
type qgroupLimit struct {
	Qgroup, Flags, MaxReferenced, MaxExclusive, ReservedReferenced, ReservedExclusive uint64
}

func onBtrfs(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.BTRFS_SUPER_MAGIC
}

func createSubvolume(parent, name string) error { return subvolume(createSubvol, parent, name) }

func destroySubvolume(parent, name string) error { return subvolume(destroySubvol, parent, name) }

func subvolume(request uintptr, parent, name string) error {
	fd, err := openDir(parent)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var args subvolumeArgs
	copy(args.Name[:len(args.Name)-1], name)
	if err := ioctl(fd, request, unsafe.Pointer(&args)); err != nil {
		return fmt.Errorf("subvolume %s of %s: %w", name, parent, err)
	}
	return nil
}

var errNoSubvolume = errors.New("it is not a subvolume of its own, as one is not that was copied from elsewhere")

// limitSubvolume fails where quotas are not enabled.
func limitSubvolume(fd int, size int64) error {
	if _, err := qgroup(fd); err != nil {
		return err
	}
	args := qgroupLimit{Flags: limitReferenced, MaxReferenced: uint64(size)}
	return ioctl(fd, limitQgroup, unsafe.Pointer(&args))
}

// qgroup returns the directory of sysfs that describes the qgroup of an open subvolume. There is none if quotas are not
// enabled.
func qgroup(fd int) (string, error) {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return "", err
	} else if is.Ino != rootInode { // what follows would be about all of the subvolume that it is in
		return "", errNoSubvolume
	}
	var info [1024]byte // struct btrfs_ioctl_fs_info_args, which has the UUID at 16
	if err := ioctl(fd, fsInfo, unsafe.Pointer(&info)); err != nil {
		return "", err
	}
	var lookup struct {
		Tree, Object uint64
		_            [4080]byte
	}
	lookup.Object = rootInode
	if err := ioctl(fd, inoLookup, unsafe.Pointer(&lookup)); err != nil {
		return "", err
	}
	u := info[16:32]
	path := fmt.Sprintf("/sys/fs/btrfs/%x-%x-%x-%x-%x/qgroups/0_%d", u[:4], u[4:6], u[6:8], u[8:10], u[10:], lookup.Tree)
	_, err := os.Stat(path)
	return path, err
}

// subvolumeUsage returns what a subvolume refers to, in bytes.
func subvolumeUsage(fd int) (int64, error) {
	dir, err := qgroup(fd)
	if err != nil {
		return 0, err
	}
	content, err := os.ReadFile(filepath.Join(dir, "referenced"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
}
