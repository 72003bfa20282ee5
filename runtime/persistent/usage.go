package persistent

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/untrusted"
)

// Usage is what a volume uses.
type Usage = runtime.VolumeUsage

// Usage measures a volume. Where neither the file system counts nor the volume is attached, it walks through its files.
func (v *Volumes) Usage(ctx context.Context, name string) (Usage, error) {
	is, err := v.get(name)
	if err != nil {
		return Usage{}, err
	}
	if is.Type == Loop {
		return v.loopUsage(name, &is)
	}
	data := filepath.Join(v.dir(name), dataDir)
	fd, err := openDir(data)
	if err != nil {
		return Usage{}, err
	}
	defer unix.Close(fd)
	out, err := fileSystemUsage(fd)
	if err != nil {
		return Usage{}, err
	}
	limited := false
	if onBtrfs(data) {
		if used, err := subvolumeUsage(fd); err == nil {
			out.Used, limited = used, true
			files, err := untrusted.Usage(ctx, data)
			if err != nil {
				return Usage{}, err
			}
			out.InodesUsed = files.Inodes
		}
	} else if is.Project != 0 {
		if q, err := projectUsage(fd, is.Project); err == nil && q.BlockHard != 0 {
			out.Used, out.InodesUsed, limited = int64(q.Space), int64(q.Inodes), true
		}
	}
	if limited {
		out.Capacity, out.Available = is.Size, min(out.Available, max(is.Size-out.Used, 0))
		return out, nil
	}
	used, err := untrusted.Usage(ctx, data)
	if err != nil {
		return Usage{}, err
	}
	out.Used, out.InodesUsed = used.Bytes, used.Inodes
	return out, nil
}

// fileSystemUsage returns the usage of the file system of an open file.
func fileSystemUsage(fd int) (Usage, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return Usage{}, err
	}
	block := int64(fs.Bsize)
	return Usage{
		Used: int64(fs.Blocks-fs.Bfree) * block, Capacity: int64(fs.Blocks) * block, Available: int64(fs.Bavail) * block,
		InodesUsed: int64(fs.Files - fs.Ffree), Inodes: int64(fs.Files), InodesAvailable: int64(fs.Ffree),
	}, nil
}

func (v *Volumes) loopUsage(name string, is *record) (Usage, error) {
	if is.Mode == Filesystem {
		if mounted, err := isMounted(v.mountPoint(name)); err != nil {
			return Usage{}, err
		} else if mounted {
			fd, err := openDir(v.mountPoint(name))
			if err != nil {
				return Usage{}, err
			}
			defer unix.Close(fd)
			return fileSystemUsage(fd)
		}
	}
	if _, err := os.Stat(filepath.Join(v.dir(name), imageFile)); err != nil {
		return Usage{}, err
	}
	return Usage{Used: is.Size, Capacity: is.Size}, nil // all of it is reserved
}
