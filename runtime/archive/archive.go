// Package archive copies trees that pods have written into tar archives, and archives into such trees. Neither leaves the
// tree: symlinks in it are followed only within it, and nothing but files and directories is opened.
package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/untrusted"
)

// local returns a path as one below the top of a tree.
func local(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// maxPath is the longest path of an entry in bytes, as the kernel has it for one call. Paths take memory for each entry,
// and trees can be deeper.
const maxPath = 4096

func checkPath(name string) error {
	if len(name) > maxPath {
		return fmt.Errorf("the path %.60q... is longer than %d bytes: %w", name, maxPath, errdefs.ErrOutOfRange)
	}
	return nil
}

// Tree is a directory whose content is copied.
type Tree struct {
	top   *os.File
	disks []*os.File // where to ask for free space
}

// Open opens a tree.
func Open(dir string) (*Tree, error) {
	top, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	t := &Tree{top, []*os.File{top}}
	if err := t.findDisks(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close closes it.
func (t *Tree) Close() (err error) {
	for _, disk := range t.disks {
		err = errors.Join(err, disk.Close())
	}
	return err
}

// open opens what is at a path, which may lead through symlinks within the tree.
func (t *Tree) open(name string) (*os.File, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	return untrusted.OpenIn(t.top, dot(local(name)), untrusted.Beneath)
}

func dot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// Check returns an error if there is no file or directory at a path.
func (t *Tree) Check(name string) error {
	file, err := t.open(name)
	if err != nil {
		return err
	}
	return file.Close()
}

// Write writes what is at a path as an archive. The entry of the path itself is named ".", those below it by their
// relative paths, and they are in the order of the file system. Owners are numbers: names of the host's users are not part
// of it. Sockets, FIFOs and devices are left out, and so are what is mounted there and what is removed meanwhile. A path of
// more than 4096 bytes is ErrOutOfRange.
func (t *Tree) Write(ctx context.Context, to io.Writer, name string) error {
	start, err := t.open(name)
	if err != nil {
		return err
	}
	defer start.Close()
	info, err := start.Stat()
	if err != nil {
		return err
	}
	out := tar.NewWriter(to)
	if info.IsDir() {
		err = untrusted.Walk(start, maxPath, func(dir int, name, rel string, is *unix.Stat_t) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return writeEntry(ctx, out, dir, name, rel, is)
		})
	} else {
		err = writeFile(ctx, out, start, ".")
	}
	if err != nil {
		return err
	}
	return out.Close()
}

// newHeader returns what all headers have. tar.FileInfoHeader would look up the names of owners on the host.
func newHeader(kind byte, name string, is *unix.Stat_t) *tar.Header {
	return &tar.Header{
		Typeflag: kind, Name: name, Mode: int64(is.Mode & 0o7777), Uid: int(is.Uid), Gid: int(is.Gid),
		ModTime: time.Unix(is.Mtim.Unix()),
	}
}

func writeEntry(ctx context.Context, out *tar.Writer, dir int, name, rel string, is *unix.Stat_t) error {
	switch is.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return out.WriteHeader(newHeader(tar.TypeDir, rel+"/", is))
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, target)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return nil // removed or replaced meanwhile
		} else if err != nil {
			return &fs.PathError{Op: "readlink", Path: rel, Err: err}
		}
		header := newHeader(tar.TypeSymlink, rel, is)
		header.Linkname = string(target[:n])
		return out.WriteHeader(header)
	case unix.S_IFREG:
		file, err := untrusted.OpenAt(dir, name)
		if errors.Is(err, fs.ErrNotExist) || errdefs.IsFailedPrecondition(err) {
			return nil
		} else if err != nil {
			return err
		}
		defer file.Close()
		return writeFile(ctx, out, file, rel)
	}
	return nil
}

func writeFile(ctx context.Context, out *tar.Writer, file *os.File, rel string) error {
	var is unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &is); err != nil {
		return &fs.PathError{Op: "stat", Path: rel, Err: err}
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil // a directory has taken the place of the file
	}
	header := newHeader(tar.TypeReg, rel, &is)
	header.Size = is.Size
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(reader{ctx, file}, header.Size))
	if err == nil && n < header.Size {
		return fmt.Errorf("%s became shorter while it was read", rel)
	}
	return err
}

// reader reads until a context ends.
type reader struct {
	ctx  context.Context
	from io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// Read puts the content of an archive at a path. Its entries are named as those of Write. A single file goes into the path
// if that is a directory, under the name base. What is made belongs to the owner of the directory that it is in, and has no
// special bits; files that exist are replaced. Anything but files and directories is an error, and so are sparse files, of
// which a small archive can hold any size. A path of more than 4096 bytes is ErrOutOfRange. It stops with
// ErrResourceExhausted before the volume or its disk is full.
func (t *Tree) Read(ctx context.Context, from io.Reader, name, base string) error {
	if err := checkPath(name); err != nil {
		return err
	}
	start := local(name)
	in := tar.NewReader(reader{ctx, from})
	for {
		header, err := in.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		rel := local(header.Name)
		to := dot(path.Join(start, rel))
		if err := checkPath(to); err != nil {
			return err
		}
		if isSparse(header) {
			return fmt.Errorf("%s is a sparse file, which is not supported: archive it without --sparse", header.Name)
		}
		if err := t.checkRoom(header.Size); err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeDir:
			var dir *os.File
			if dir, err = t.makeDir(to, header.FileInfo().Mode().Perm()); err == nil {
				err = dir.Close()
			}
		case tar.TypeReg:
			if rel == "" && t.isDir(to) {
				if base == "" || base != path.Base(local(base)) {
					return fmt.Errorf("%s is a directory", name)
				}
				to = path.Join(to, base)
			}
			err = t.makeFile(in, to, header.FileInfo().Mode().Perm())
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", header.Name)
		}
		if err != nil {
			return err
		}
	}
}

func (t *Tree) isDir(name string) bool {
	file, err := t.open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	return err == nil && info.IsDir()
}

// isSparse reports whether an entry has holes that take no space in the archive.
func isSparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return header.Typeflag == tar.TypeGNUSparse
}

// own gives what was made to the owner of the directory that it is in.
func own(made, dir int) error {
	var is unix.Stat_t
	if err := unix.Fstat(dir, &is); err != nil {
		return err
	}
	return unix.Fchown(made, int(is.Uid), int(is.Gid))
}

// makeDir opens a directory, and makes it and those above it where they are missing.
func (t *Tree) makeDir(name string, mode fs.FileMode) (*os.File, error) {
	fd, err := untrusted.MakeDirs(int(t.top.Fd()), name, t.resolveDir, func(dir, above int) error {
		return errors.Join(own(dir, above), unix.Fchmod(dir, uint32(mode.Perm())))
	})
	if err != nil {
		return nil, &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// resolveDir opens a directory to which symlinks within the tree may lead.
func (t *Tree) resolveDir(name string) (int, error) {
	dir, err := t.open(name)
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	if info, err := dir.Stat(); err != nil || !info.IsDir() {
		return -1, errors.Join(unix.ENOTDIR, err)
	}
	return unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// makeFile writes a file under another name, which then takes the place of what is there.
func (t *Tree) makeFile(content io.Reader, name string, mode fs.FileMode) error {
	if name == "." {
		return errors.New("the top of a volume is a directory")
	}
	dir, err := t.makeDir(path.Dir(name), 0o755)
	if err != nil {
		return err
	}
	defer dir.Close()
	in, base := int(dir.Fd()), path.Base(name)
	fresh := ".~" + base
	failed := func(op string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }
	if err := unix.Unlinkat(in, fresh, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return failed("remove what is left of", err)
	}
	fd, err := unix.Openat(in, fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return failed("create", err)
	}
	file := os.NewFile(uintptr(fd), name)
	err = t.fill(file, content)
	if err == nil {
		err = own(fd, in)
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		if err = unix.Renameat(in, fresh, in, base); err == nil {
			return nil
		}
		err = failed("replace", err)
	}
	if left := unix.Unlinkat(in, fresh, 0); left != nil {
		err = errors.Join(err, failed("remove what is left of", left))
	}
	return err
}
