package outside

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// At finds an absolute path of the host, symlinks included, as root does. What is found is open (O_PATH), and can be asked what it is.
func At(path string) (*os.File, error) {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/", Err: err}
	}
	defer unix.Close(root)
	fd, err := Open(root, "."+filepath.Clean("/"+path), unix.RESOLVE_IN_ROOT)
	if err != nil {
		return nil, &os.PathError{Op: "find", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Stat is os.Stat of what At finds.
func Stat(path string) (os.FileInfo, error) {
	file, err := At(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Stat()
}

// Real is filepath.EvalSymlinks of what At finds.
func Real(path string) (string, error) {
	file, err := At(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
}

// resolveCached is RESOLVE_CACHED of Linux 5.12, which asks no file system. Older ones do not know it, and refuse.
const resolveCached = 0x20

// IsDir says whether what At finds is a directory. Where the kernel knows all of the path, this takes no longer than to ask it: that costs
// more the more is mounted on the host.
func IsDir(path string) (bool, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveCached})
	if err == nil {
		defer unix.Close(fd)
		var is unix.Statx_t
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &is); err == nil {
			return is.Mode&unix.S_IFMT == unix.S_IFDIR, nil
		}
	}
	info, err := Stat(path)
	return err == nil && info.IsDir(), err
}
