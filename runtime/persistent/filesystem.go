package persistent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// fileSystem is how a kind of file system is made in a file, checked, and grown while it is mounted.
type fileSystem struct {
	name  string
	pack  string   // the Debian package of its programs
	make  []string // the arguments are followed by the file's path
	check []string // nil: mounting it repairs what a power cut has left
	// resize is what grows it while it is not mounted, after a check; empty if nothing does.
	resize string
	// grow is given the open root of the file system, and its new size in bytes.
	grow func(fd int, size int64) error
}

// Nothing is discarded when they are made: the file's blocks are reserved. No blocks are kept for root, since the volume's
// size is what the pod was promised.
var fileSystems = []fileSystem{
	{
		name: "ext4", pack: "e2fsprogs", make: []string{"mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard"},
		check: []string{"e2fsck", "-p"}, resize: "resize2fs", grow: growExt4,
	},
	{name: "xfs", pack: "xfsprogs", make: []string{"mkfs.xfs", "-q", "-f", "-K"}, grow: growXFS},
}

// fsTypes returns the file systems that a volume in a file can have (the class parameter csi.storage.k8s.io/fstype).
func fsTypes() (out []string) {
	for _, f := range fileSystems {
		out = append(out, f.name)
	}
	return out
}

func fileSystemOf(name string) (fileSystem, error) {
	i := slices.IndexFunc(fileSystems, func(f fileSystem) bool { return f.name == name })
	if i < 0 {
		return fileSystem{}, fmt.Errorf("file system type %q: %w", name, errdefs.ErrInvalidArgument)
	}
	return fileSystems[i], nil
}

// runProgram runs a program of the host, whose package the error names if it is missing. When the context ends, the
// program is killed with all that it has started.
func runProgram(ctx context.Context, pack, name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		for _, dir := range []string{"/usr/sbin/", "/sbin/"} { // not in everybody's PATH
			if _, statErr := os.Stat(dir + name); statErr == nil {
				path, err = dir+name, nil
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%s is not installed on this machine (Debian's package %s has it): %w", name, pack,
			errdefs.ErrFailedPrecondition)
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = time.Second // a daemon that it has started may keep the output open: ErrWaitDelay, a success
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		said := strings.Join(strings.Fields(output.String()), " ")
		return fmt.Errorf("%s: %s: %w", name, said, err)
	}
	return nil
}

// makeImage makes a file of a volume's size, with a file system in it unless it is to be a block device.
func makeImage(ctx context.Context, path string, spec Spec) (warning string, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if onBtrfs(path) {
		// What is reserved is not needed twice when it is written to. A file system that cannot do this is none of btrfs.
		_ = unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, 0x00800000) // FS_NOCOW_FL
	}
	if warning, err = reserve(file, spec.Size); err != nil {
		return "", err
	}
	if spec.Mode == Filesystem {
		fs, err := fileSystemOf(spec.FSType)
		if err != nil {
			return "", err
		}
		if err := runProgram(ctx, fs.pack, fs.make[0], append(fs.make[1:len(fs.make):len(fs.make)], path)...); err != nil {
			return "", err
		}
	}
	return warning, file.Sync()
}

// reserve makes a file as large as it is to be, so that a write to it does not fail later because the disk is full.
func reserve(file *os.File, size int64) (warning string, err error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if err := haveRoom(file, size); err != nil {
		return "", err
	}
	switch err := unix.Fallocate(int(file.Fd()), 0, 0, size); {
	case errors.Is(err, unix.EOPNOTSUPP):
		return "the file of the volume is not reserved on its disk, whose file system cannot do that: " +
			"writes to the volume fail when the disk is full", file.Truncate(size)
	case err != nil:
		return "", errors.Join(fmt.Errorf("reserve %d bytes for %s: %w", size, file.Name(), err), file.Truncate(info.Size()))
	}
	return "", nil
}

// haveRoom fails if a disk has not room enough for a file of a size, besides what others need. It is asked first, since
// what is reserved takes all of the disk away from others until the attempt has failed, and a claim is tried again and
// again. The error is ErrResourceExhausted of errdefs.
func haveRoom(file *os.File, size int64) error {
	var is unix.Stat_t
	var disk unix.Statfs_t
	if err := errors.Join(unix.Fstat(int(file.Fd()), &is), unix.Fstatfs(int(file.Fd()), &disk)); err != nil {
		return fmt.Errorf("free space for %s: %w", file.Name(), err)
	}
	need, free := size-is.Blocks*512, int64(disk.Bavail)*disk.Bsize
	keep := roomKept(int64(disk.Blocks) * disk.Bsize)
	if need > 0 && need > free-keep {
		return fmt.Errorf("not enough room: %d bytes more are needed, and %d are free on the disk, of which %d are kept free: %w",
			need, free, keep, errdefs.ErrResourceExhausted)
	}
	return nil
}

// roomKept returns how many bytes of a disk files of volumes leave free: twice as much as it has left when pods are
// evicted for it by default, and enough for the state of a small one.
func roomKept(disk int64) int64 { return max(disk/50, 64<<20) }

// growExt4 is what resize2fs does with a mounted file system.
func growExt4(fd int, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	blocks := uint64(size / int64(fs.Bsize))
	err := ioctl(fd, 0x40086610 /* EXT4_IOC_RESIZE_FS */, unsafe.Pointer(&blocks))
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("while it is mounted this needs CAP_SYS_RESOURCE; it is done when it is mounted again, as after a restart of the machine: %w", err)
	}
	return err
}

// growXFS is what xfs_growfs does.
func growXFS(fd int, size int64) error {
	var geometry struct { // struct xfs_fsop_geom_v1 of xfs/xfs_fs.h
		BlockSize uint32
		_         [6]uint32
		MaxInodes uint32 // in percent of the space
		Blocks    uint64
		_         [9]uint64
	}
	if err := ioctl(fd, 0x80705864 /* XFS_IOC_FSGEOMETRY_V1 */, unsafe.Pointer(&geometry)); err != nil {
		return err
	}
	grow := struct { // struct xfs_growfs_data
		Blocks    uint64
		MaxInodes uint32
		_         uint32
	}{Blocks: uint64(size) / uint64(geometry.BlockSize), MaxInodes: geometry.MaxInodes}
	if grow.Blocks <= geometry.Blocks {
		return nil
	}
	return ioctl(fd, 0x4010586e /* XFS_IOC_FSGROWFSDATA */, unsafe.Pointer(&grow))
}
