package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/crash"
)

// dataLink is the symlink to the directory that has the files of a volume as they are now. Replacing it changes them
// all at once.
const dataLink = "..data"

// file is a file of a volume.
type file struct {
	content []byte
	mode    uint32
	user    int // its owner; root if 0
}

// writeFiles ensures that a directory holds exactly these files, laid out as by a kubelet: each name at the top is a
// symlink into ..data, which is a symlink to a directory with the files. A reader sees either the old files or the new
// ones. Called again after a crash, it keeps what was completed and removes what was not. (A kubelet's own AtomicWriter
// is in no library.)
func writeFiles(dir string, wanted map[string]file, group int) error {
	if group >= 0 {
		// As a kubelet does it: the group may read.
		shared := make(map[string]file, len(wanted))
		for path, f := range wanted {
			f.mode |= 0o440
			shared[path] = f
		}
		wanted = shared
	}
	data := filepath.Join(dir, dataLink)
	if !holds(data, wanted) {
		fresh, err := os.MkdirTemp(dir, time.Now().Format("..2006_01_02_15_04_05."))
		if err != nil {
			return err
		}
		if err := fill(fresh, wanted, group); err != nil {
			return errors.Join(err, os.RemoveAll(fresh))
		}
		link := data + "_tmp"
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(filepath.Base(fresh), link); err != nil {
			return err
		}
		crash.At("volume.files.written")
		if err := os.Rename(link, data); err != nil {
			return err
		}
	}
	crash.At("volume.files.shown")
	return tidy(dir, wanted)
}

// holds reports whether the directory that a symlink leads to, which is beside it, has exactly these files.
func holds(link string, wanted map[string]file) bool {
	current, err := os.Readlink(link)
	if err != nil {
		return false
	}
	root := filepath.Join(filepath.Dir(link), current)
	found := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		want, ok := wanted[name]
		if !ok {
			return errors.New("it is one too many")
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if uint32(info.Mode().Perm()) != want.mode || !bytes.Equal(content, want.content) {
			return errors.New("it has changed")
		}
		found++
		return nil
	})
	return err == nil && found == len(wanted)
}

func fill(dir string, wanted map[string]file, group int) error {
	mode := uint32(0o755)
	if group >= 0 {
		mode |= unix.S_ISGID
	}
	own := func(path string, user int, mode uint32) error {
		return errors.Join(os.Chown(path, user, group), unix.Chmod(path, mode))
	}
	if err := own(dir, 0, mode); err != nil {
		return err
	}
	for name, f := range wanted {
		for i, c := range name {
			if c != '/' {
				continue
			}
			parent := filepath.Join(dir, name[:i])
			if err := os.Mkdir(parent, 0o700); err == nil {
				err = own(parent, 0, mode)
				if err != nil {
					return err
				}
			} else if !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		path := filepath.Join(dir, name)
		if err := files.Write(path, f.content, 0o600); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := own(path, f.user, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// tidy creates the symlinks at the top of a volume that are missing, and removes those that are not wanted any more, and the earlier
// files. Anything else is where containers mount something: to remove it would unmount that in all of them.
func tidy(dir string, wanted map[string]file) error {
	current, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil {
		return err
	}
	tops := map[string]bool{}
	for name := range wanted {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	for top := range tops {
		if err := os.Symlink(filepath.Join(dataLink, top), filepath.Join(dir, top)); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		ours := e.Type() == fs.ModeSymlink || strings.HasPrefix(name, "..")
		if ours && !tops[name] && name != dataLink && name != current {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
