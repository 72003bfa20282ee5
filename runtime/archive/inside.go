package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What is in a running container is copied by one of the container's own processes, as kubectl does it with the image's
// tar: it may do what the container's user may, sees what is mounted there, and no symlink leads it anywhere else.

// The operations of Inside.
const (
	Pack   = "pack"
	Unpack = "unpack"
)

// NotExist is the exit code of jobd-shim --files if the path does not exist.
const NotExist = 2

// Inside copies files from and to the place where it runs. {Pack, PATH} writes what is at the path as an archive, like
// Tree.Write but with what is mounted there. {Unpack, PATH, NAME} puts the content of an archive at the path, or below NAME
// in it if that is a directory; what is made belongs to the user of the process, and files that exist are replaced.
func Inside(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == Pack:
		return pack(ctx, out, args[1])
	case len(args) == 3 && args[0] == Unpack:
		return unpack(ctx, in, args[1], args[2])
	}
	return fmt.Errorf("%q is neither %s PATH nor %s PATH NAME", args, Pack, Unpack)
}

func pack(ctx context.Context, to io.Writer, name string) error {
	top, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	out := tar.NewWriter(to)
	if err := filepath.WalkDir(top, func(at string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = packEntry(ctx, out, top, at)
		}
		if errors.Is(err, fs.ErrNotExist) && at != top {
			return nil // removed meanwhile
		}
		return err
	}); err != nil {
		return err
	}
	return out.Close()
}

func packEntry(ctx context.Context, out *tar.Writer, top, at string) error {
	rel, err := filepath.Rel(top, at)
	if err != nil {
		return err
	}
	var is unix.Stat_t
	if err := unix.Lstat(at, &is); err != nil {
		return &fs.PathError{Op: "stat", Path: at, Err: err}
	}
	switch is.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return out.WriteHeader(newHeader(tar.TypeDir, rel+"/", &is))
	case unix.S_IFLNK:
		header := newHeader(tar.TypeSymlink, rel, &is)
		if header.Linkname, err = os.Readlink(at); err != nil {
			return err
		}
		return out.WriteHeader(header)
	case unix.S_IFREG:
		// It may have become a FIFO, which must not be waited for.
		file, err := os.OpenFile(at, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		return writeFile(ctx, out, file, rel)
	}
	if at == top {
		return fmt.Errorf("%s is neither a file nor a directory", at)
	}
	return nil
}

func unpack(ctx context.Context, from io.Reader, name, base string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if !filepath.IsLocal(base) || base != filepath.Base(base) {
			return fmt.Errorf("%s is a directory", name)
		}
		name = filepath.Join(name, base)
	}
	in := tar.NewReader(reader{ctx, from})
	for {
		header, err := in.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		to, mode := filepath.Join(name, local(header.Name)), header.FileInfo().Mode().Perm()
		switch {
		case isSparse(header):
			return fmt.Errorf("%s is a sparse file, which is not supported: archive it without --sparse", header.Name)
		case header.Typeflag == tar.TypeDir:
			err = os.MkdirAll(to, mode)
		case header.Typeflag == tar.TypeReg:
			err = unpackFile(in, to, mode)
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", header.Name)
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(content io.Reader, to string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err == nil {
		err = file.Chmod(mode)
	}
	return errors.Join(err, file.Close())
}
