package untrusted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrMounted reports that a tree has something mounted in it.
var ErrMounted = errors.New("something is mounted there")

// maxDepth is how many directories are open at a time. What lies deeper is moved up.
const maxDepth = 64

// Remove removes a file, or a directory with all that is in it, however deep that is. It does not enter what is mounted
// there: it stops with ErrMounted. Asking the kernel on the way costs nothing; its list of mounts is long where many
// pods run. Files that were made immutable go too. What does not exist is no error.
//
// It ends with the context, and may never come to an end otherwise: whoever has a directory of the tree open can make files in it faster
// than they are removed.
func Remove(ctx context.Context, path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	defer unix.Close(parent)
	r := remover{ctx: ctx, top: -1}
	defer r.done()
	if err := r.remove(parent, filepath.Base(path), 0); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// Empty removes all that is in a directory, as Remove does.
func Empty(ctx context.Context, dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	r := remover{ctx: ctx, top: fd}
	defer r.done()
	for {
		if some, err := r.pass(fd, 1); err != nil {
			return fmt.Errorf("remove what is in %s: %w", dir, err)
		} else if !some {
			return nil
		}
	}
}

// giveWay lets others have the processor after each entry. A goroutine that makes one short system call after the other is interrupted
// every 10 ms alone, and a tenant may have dozens of trees removed at a time: others wait for all of them each time that they wait.
var giveWay = runtime.Gosched

// remover removes one tree.
type remover struct {
	ctx   context.Context
	top   int // the directory that all of it is in; -1 until it is open
	moved int // directories that were moved up
	// buffer is what entries are read into; nil until then.
	buffer *entries
}

type entries [16 << 10]byte

// buffers are kept: several trees of each pod are removed, most of them of a few entries.
var buffers = sync.Pool{New: func() any { return new(entries) }}

func (r *remover) done() {
	if r.buffer != nil {
		buffers.Put(r.buffer)
	}
}

func (r *remover) remove(parent int, name string, depth int) error {
	err := r.unlink(parent, name, 0, depth)
	if errors.Is(err, unix.EISDIR) {
		if depth < maxDepth {
			err = r.removeDir(parent, name, depth)
		} else if err = r.unlink(parent, name, unix.AT_REMOVEDIR, depth); errors.Is(err, unix.ENOTEMPTY) {
			err = r.moveUp(parent, name)
		}
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EXDEV):
		return ErrMounted
	}
	return err
}

func (r *remover) removeDir(parent int, name string, depth int) error {
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if r.top < 0 {
		r.top = fd
	}
	for {
		some, err := r.pass(fd, depth+1)
		if err != nil {
			return err
		}
		if err := r.unlink(parent, name, unix.AT_REMOVEDIR, depth); !some || !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
}

// pass removes entries that a directory has, and reports whether it has found any. There may be more of them, and more
// may come up from below.
func (r *remover) pass(dir, depth int) (some bool, err error) {
	if _, err := unix.Seek(dir, 0, io.SeekStart); err != nil {
		return false, err
	}
	if r.buffer == nil {
		r.buffer = buffers.Get().(*entries)
	}
	for {
		if err := r.ctx.Err(); err != nil {
			return some, err
		}
		n, err := unix.ReadDirent(dir, r.buffer[:])
		if err == unix.EINTR {
			continue
		} else if err != nil || n == 0 {
			return some, err
		}
		_, _, names := unix.ParseDirent(r.buffer[:n], -1, nil) // strings of their own: the buffer is used again below
		for _, name := range names {
			some = true
			if err := r.remove(dir, name, depth); err != nil {
				return some, err
			}
			giveWay()
		}
		// That most likely were all of them, which the caller finds out for less than another look costs.
		if some && n < len(r.buffer)/2 {
			return some, nil
		}
	}
}

// moveUp moves a directory to the top: neither descriptors nor the stack grow with the depth of a tree.
func (r *remover) moveUp(parent int, name string) error {
	for {
		r.moved++
		to := ".removed-" + strconv.Itoa(r.moved)
		err := unix.Renameat(parent, name, r.top, to)
		if errors.Is(err, unix.EPERM) {
			takeOff(parent, name)
			takeOff(parent, ".")
			takeOff(r.top, ".")
			err = unix.Renameat(parent, name, r.top, to)
		}
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
}

// unlink removes an entry, and clears the flags that prevent it.
func (r *remover) unlink(parent int, name string, flags, depth int) error {
	err := unix.Unlinkat(parent, name, flags)
	if errors.Is(err, unix.EPERM) {
		changed := takeOff(parent, name)
		if depth > 0 && takeOff(parent, ".") { // the directory that the tree is in is not ours
			changed = true
		}
		if changed {
			err = unix.Unlinkat(parent, name, flags)
		}
	}
	return err
}

// locked holds the inode flags that keep a file from being removed, or a directory from losing its entries: chattr +i
// and +a. They have these values on every architecture.
const locked = 0x10 | 0x20

// takeOff clears those flags of a file or directory, and reports whether it had any.
func takeOff(parent int, name string) bool {
	place, err := unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(place)
	var is unix.Stat_t
	if unix.Fstat(place, &is) != nil {
		return false
	}
	if kind := is.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return false // nothing else is opened
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(place), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&locked == 0 {
		return false
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags&^locked)) == nil
}
