package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

const (
	// idleOverlay is how long an overlay is kept for another container: longer pins what was deleted of an image.
	idleOverlay = 5 * time.Second
	// maxIdleOverlays are kept at a time.
	maxIdleOverlays = 64
)

// overlays are the overlays of containers, and those that are kept for later ones. To mount an overlay, the kernel
// makes and removes half a dozen files to find out what the disk can do, which costs more than anything else a shard
// does for a container. An overlay whose container has ended and has left the writable layer untouched is as good as a
// new one: what is seen through it are the layers below, which never change. The zero value is ready.
type overlays struct {
	mu    sync.Mutex
	idle  map[string]*overlay // by upper directory
	sweep *time.Timer         // runs while any are idle
}

// overlay is a mounted overlay. It is held by a copy of the mount that is in no namespace, so that it outlives the
// container's namespace, but not this process.
type overlay struct {
	options string
	upper   string
	mount   int // the copy
	was     *writable

	since time.Time // idle
}

// upperOf returns the writable layer of a root file system that is a single overlay, "" for any other.
func upperOf(mounts []protocol.Mount) string {
	if len(mounts) != 1 || mounts[0].Type != "overlay" || mounts[0].Target != "" {
		return ""
	}
	for _, option := range mounts[0].Options {
		if dir, ok := strings.CutPrefix(option, "upperdir="); ok {
			return dir
		}
	}
	return ""
}

// mount mounts a root file system in the calling thread's mount namespace, with the ids of a user namespace, which is
// nil for the host's. The overlay is nil where there is none, and where the kernel cannot copy mounts: Linux before
// 5.2.
func (o *overlays) mount(mounts []protocol.Mount, root string, own *namespace) (*overlay, error) {
	upper := upperOf(mounts)
	if upper == "" {
		return nil, mountAll(mounts, root, own)
	}
	options := strings.Join(append(own.options(), mounts[0].Options...), ",")
	v := o.take(upper, options)
	if v != nil {
		err := unix.MoveMount(v.mount, "", unix.AT_FDCWD, root, unix.MOVE_MOUNT_F_EMPTY_PATH)
		v.close()
		if err != nil {
			return nil, fmt.Errorf("mount overlay again: %w", err)
		}
	} else {
		if err := mountAll(mounts, root, own); err != nil {
			return nil, err
		}
		v = &overlay{options: options, upper: upper}
	}
	var err error
	if v.mount, err = unix.OpenTree(unix.AT_FDCWD, root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
		return nil, nil
	}
	// Also where it is reused: whoever has emptied it may have removed what the kernel puts there when it mounts.
	if v.was, _, err = v.look(); err != nil {
		v.close()
		return nil, nil
	}
	return v, nil
}

// take returns the overlay that is kept for a writable layer, if it still is that layer and is mounted in the same way.
func (o *overlays) take(upper, options string) *overlay {
	o.mu.Lock()
	v := o.idle[upper]
	delete(o.idle, upper)
	o.mu.Unlock()
	if v == nil {
		return nil
	}
	var now unix.Stat_t
	if err := unix.Stat(upper, &now); err != nil || now.Dev != v.was.dev || now.Ino != v.was.inode || options != v.options {
		v.close()
		return nil
	}
	return v
}

// giveBack takes the overlay, which may be nil, of a container of which nothing runs any more. It is kept if it is as
// new, and otherwise closed, so that it is mounted nowhere when this returns.
func (o *overlays) giveBack(v *overlay) {
	if v == nil || v.asNew() && o.keep(v) {
		return
	}
	v.close()
}

func (o *overlays) keep(v *overlay) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.idle) >= maxIdleOverlays || o.idle[v.upper] != nil {
		return false
	}
	if o.idle == nil {
		o.idle = map[string]*overlay{}
	}
	v.since = time.Now()
	o.idle[v.upper] = v
	if o.sweep == nil {
		o.sweep = time.AfterFunc(idleOverlay, o.letGo)
	}
	return true
}

// letGo closes the overlays that no container has asked for in time.
func (o *overlays) letGo() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for upper, v := range o.idle {
		if time.Since(v.since) >= idleOverlay {
			v.close()
			delete(o.idle, upper)
		}
	}
	if len(o.idle) == 0 {
		o.sweep = nil
		return
	}
	o.sweep.Reset(idleOverlay)
}

func (v *overlay) close() {
	if v != nil {
		unix.Close(v.mount)
	}
}

// writable is what shows whether somebody has changed a writable layer, or has remounted the file system with other
// flags.
type writable struct {
	dev, inode         uint64
	mode, uid, gid     uint32
	extendedAttributes string
	flags              int64
}

// look returns what the writable layer is like, and whether it is empty.
func (v *overlay) look() (_ *writable, empty bool, err error) {
	fd, err := unix.Open(v.upper, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, err
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	var mounted unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &info), unix.Fstatfs(v.mount, &mounted)); err != nil {
		return nil, false, err
	}
	attributes, err := extendedAttributes(fd)
	if err != nil {
		return nil, false, err
	}
	return &writable{info.Dev, info.Ino, info.Mode, info.Uid, info.Gid, attributes, mounted.Flags}, emptyDir(fd), nil
}

// emptyDir reports whether a directory that was just opened has no entries.
func emptyDir(fd int) bool {
	buffer := make([]byte, 512)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if n == 0 || err != nil {
			return err == nil
		}
		if _, found, _ := unix.ParseDirent(buffer[:n], 1, nil); found > 0 { // "." and ".." are not counted
			return false
		}
	}
}

// asNew reports whether the writable layer is as it was when it was mounted, and empty. Whatever is written, changed or
// removed through an overlay leaves an entry there, except what is done to the root directory itself.
func (v *overlay) asNew() bool {
	is, empty, err := v.look()
	return err == nil && empty && *is == *v.was
}

// extendedAttributes returns all extended attributes of a file, with their values.
func extendedAttributes(fd int) (string, error) {
	names := make([]byte, 1024)
	n, err := unix.Flistxattr(fd, names)
	if err != nil || n == 0 {
		return "", err
	}
	all := strings.Split(strings.TrimRight(string(names[:n]), "\x00"), "\x00")
	slices.Sort(all)
	value := make([]byte, 1024)
	for i, name := range all {
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			return "", err
		}
		all[i] += "=" + string(value[:n])
	}
	return strings.Join(all, "\x00"), nil
}
