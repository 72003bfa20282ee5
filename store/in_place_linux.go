package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// Flags of files, as in linux/fs.h: FS_NOCOW_FL, FS_COMPR_FL and FS_NOCOMP_FL.
const (
	fsNoCOW          = 0x00800000
	fsCompressed     = 0x00000004
	fsIncompressible = 0x00000400
)

// openInPlace is os.OpenFile for a file that bolt is about to make. Btrfs writes a page that is rewritten to another place,
// unless it was told otherwise while the file was empty. Each commit would need free space then, whatever is reserved, and
// the file would fall to pieces. Like other databases this one goes without Btrfs's checksums and compression in return.
func openInPlace(name string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	if flags, ok := btrfsFlags(f); ok {
		// What is compressed, as the directory may ask for, cannot be written in place. keepReserve sees if this fails.
		flags &^= fsCompressed | fsIncompressible
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|fsNoCOW)
	}
	return f, nil
}

// copiesOnWrite reports whether the pages of a file are written to another place each time.
func copiesOnWrite(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	flags, ok := btrfsFlags(f)
	return ok && flags&fsNoCOW == 0
}

// btrfsFlags returns the flags of a file, if it is on Btrfs.
func btrfsFlags(f *os.File) (flags int, ok bool) {
	var of unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &of); err != nil || of.Type != unix.BTRFS_SUPER_MAGIC {
		return 0, false
	}
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return flags, err == nil
}
