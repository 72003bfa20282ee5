// Package archive copies trees that pods have written into tar archives, and archives into such trees. Neither leaves the
// tree: symlinks in it are followed only within it, and nothing but files and directories is opened.
package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// local returns a path as one below the top of a tree.
func local(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// Tree is a directory whose content is copied.
type Tree struct{ root *os.Root }

// Open opens a tree.
func Open(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Tree{root}, nil
}

// Close closes it.
func (t *Tree) Close() error { return t.root.Close() }

func dot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// Check returns an error if there is nothing at a path.
func (t *Tree) Check(name string) error {
	_, err := t.root.Stat(dot(local(name)))
	return err
}

// Write writes what is at a path as an archive. The entry of the path itself is named ".", those below it by their
// relative paths. Sockets, FIFOs and devices are left out, and so is what is removed meanwhile.
func (t *Tree) Write(to io.Writer, name string) error {
	start := dot(local(name))
	out := tar.NewWriter(to)
	info, err := t.root.Stat(start)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		err = t.writeFile(out, start, ".")
	} else {
		var below fs.FS = t.root.FS()
		if start != "." {
			// The walk does not enter a symlink, and the path may lead through one.
			if below, err = fs.Sub(below, start); err != nil {
				return err
			}
		}
		err = fs.WalkDir(below, ".", func(rel string, d fs.DirEntry, err error) error {
			if err == nil {
				err = t.writeEntry(out, path.Join(start, rel), rel, d)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	return out.Close()
}

func (t *Tree) writeEntry(out *tar.Writer, name, rel string, d fs.DirEntry) error {
	switch {
	case d.IsDir():
		info, err := d.Info()
		if err != nil {
			return err
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		header.Name = rel + "/"
		return out.WriteHeader(header)
	case d.Type() == fs.ModeSymlink:
		info, err := d.Info()
		if err != nil {
			return err
		}
		target, err := t.root.Readlink(name)
		if err != nil {
			return err
		}
		header, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		header.Name = rel
		return out.WriteHeader(header)
	case d.Type().IsRegular():
		return t.writeFile(out, name, rel)
	}
	return nil
}

func (t *Tree) writeFile(out *tar.Writer, name, rel string) error {
	// It may have become a FIFO since it was found, for which nothing is waited.
	file, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a directory", name)
	}
	header, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	header.Name = rel
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(file, header.Size))
	if err == nil && n < header.Size {
		return fmt.Errorf("%s became shorter while it was read", name)
	}
	return err
}

// Read puts the content of an archive at a path. Its entries are named as those of Write. A single file goes into the path if
// that is a directory, under the name base. What is made belongs to the owner of the directory that it is in, and has no
// special bits; files that exist are replaced. Anything but files and directories is an error.
func (t *Tree) Read(from io.Reader, name, base string) error {
	start := local(name)
	in := tar.NewReader(from)
	for {
		header, err := in.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		rel := local(header.Name)
		to := dot(path.Join(start, rel))
		switch header.Typeflag {
		case tar.TypeDir:
			err = t.makeDir(to, header.FileInfo().Mode().Perm())
		case tar.TypeReg:
			if info, statErr := t.root.Stat(to); rel == "" && statErr == nil && info.IsDir() {
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

// own gives what was made to the owner of the directory that it is in.
func (t *Tree) own(name string) error {
	info, err := t.root.Stat(path.Dir(name))
	if err != nil {
		return err
	}
	is := info.Sys().(*syscall.Stat_t)
	return t.root.Lchown(name, int(is.Uid), int(is.Gid))
}

// makeDir ensures that a directory exists, and those above it.
func (t *Tree) makeDir(name string, mode fs.FileMode) error {
	if name == "." {
		return nil
	}
	if info, err := t.root.Stat(name); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", name)
		}
		return nil
	}
	if err := t.makeDir(path.Dir(name), mode); err != nil {
		return err
	}
	if err := t.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := t.own(name); err != nil {
		return err
	}
	return t.root.Chmod(name, mode)
}

// makeFile writes a file under another name, which then takes the place of what is there.
func (t *Tree) makeFile(content io.Reader, name string, mode fs.FileMode) error {
	if name == "." {
		return errors.New("the top of a volume is a directory")
	}
	if err := t.makeDir(path.Dir(name), 0o755); err != nil {
		return err
	}
	fresh := path.Join(path.Dir(name), ".~"+path.Base(name))
	if err := t.root.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := t.root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = t.own(fresh)
	}
	if err == nil {
		err = t.root.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, t.root.Remove(fresh))
	}
	return nil
}
