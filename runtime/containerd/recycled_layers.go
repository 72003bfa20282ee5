package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/untrusted"
)

// maxFreeLayers is how many free layers are kept for later containers.
const maxFreeLayers = 512

// recycledLayers are the writable layers of containers on overlayfs: pairs of directories that containers use one after
// another, since making and removing directories is most of what a layer costs, and the more so the longer a disk has
// been in use. Each belongs to the containers of one shard, which keeps it mounted while it is clean.
//
// The mount points of the container are in a layer below all those of the image, so that a container that writes nothing leaves
// its own layer as new. A container whose files others may have obtained has a layer that is not recycled: with its root
// directory, say, which can be passed anywhere through a UNIX socket, they would have access to the next container.
type recycledLayers struct {
	backend snapshots.Snapshotter
	dir     string // the layers, by number
	lowest  *lowestLayers
	// links has a symlink for each container, which says which layer it has. Neither the symlink nor the layer outlives
	// this boot of the host.
	links string

	orphans []string                  // layers that no container had when this was opened
	found   map[string]*recycledLayer // the layers that containers had then

	mu    sync.Mutex
	next  int
	free  []recycledLayer           // clean, in the order in which they were freed
	held  map[string]*recycledLayer // by container
	bases map[string]base           // by the parent's key
}

type recycledLayer struct {
	name, lowest, parent string
	root                 uint32    // its root's ID on the host: what is below is mounted with the IDs of that range
	since                time.Time // taken
}

// mountedAs returns the same string for two layers that are mounted over the same ones and belong to the same shard.
func (l recycledLayer) mountedAs() string { return fmt.Sprintln(l.shard(), l.root, l.lowest, l.parent) }

// layerName returns the name of a layer that is recycled: SHARD-NUMBER. Any other layer is called NUMBER.
func layerName(shard, number int) string { return fmt.Sprintf("%d-%d", shard, number) }

// shard returns the shard that a recycled layer belongs to, and "" for a layer that is not recycled.
func (l recycledLayer) shard() string {
	shard, _, again := strings.Cut(l.name, "-")
	if !again {
		return ""
	}
	return shard
}

// layerNumber returns the number in the name of a layer, and false for what is not the name of one.
func layerNumber(name string) (int, bool) {
	_, number, ok := strings.Cut(name, "-")
	if !ok {
		number = name
	}
	n, err := strconv.Atoi(number)
	return n, err == nil
}

// base is what the layers of containers of one image have in common.
type base struct {
	uid, gid uint32   // of the root directory
	layers   string   // as in the option lowerdir
	options  []string // the others, except for the directories of the writable layer
}

const (
	layerMode = 0o755
	upperDir  = "fs"
	workDir   = "work"
)

func openRecycledLayers(backend snapshots.Snapshotter, dir, links string) (*recycledLayers, error) {
	s := &recycledLayers{
		backend: backend, dir: dir, links: links, held: map[string]*recycledLayer{}, bases: map[string]base{},
	}
	s.lowest = newLowestLayers(filepath.Join(dir, "lowest"), enoughLowest, maxLowest)
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("layers of containers: %w", err)
	}
	return s, nil
}

func (s *recycledLayers) open() error {
	for _, dir := range []string{s.lowest.dir, s.links} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	links, err := os.ReadDir(s.links)
	if err != nil {
		return err
	}
	for _, link := range links {
		text, err := os.Readlink(filepath.Join(s.links, link.Name()))
		if err != nil {
			return err
		}
		name, rest, _ := strings.Cut(text, " ")
		lowest, parent, _ := strings.Cut(rest, " ")
		info, err := link.Info()
		if err != nil {
			return err
		}
		s.held[link.Name()] = &recycledLayer{name: name, lowest: lowest, parent: parent, since: info.ModTime()}
		s.lowest.use(lowest)
	}
	s.found = maps.Clone(s.held)
	taken := map[string]bool{}
	for _, one := range s.held {
		taken[one.name] = true
	}
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		n, ok := layerNumber(e.Name())
		if !ok {
			continue
		}
		s.next = max(s.next, n+1)
		if !taken[e.Name()] {
			s.orphans = append(s.orphans, e.Name())
		}
	}
	return err
}

// take returns the mounts of a container: a layer of its own over those of an image.
func (s *recycledLayers) take(ctx context.Context, parent string, of ofContainer) (_ []mount.Mount, err error) {
	b, err := s.base(ctx, parent)
	if err != nil {
		return nil, err
	}
	lowest, err := s.lowest.take(of.mounts)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[of.id] != nil {
		s.lowest.drop(lowest)
		return nil, fmt.Errorf("layer of container %s: %w", of.id, errdefs.ErrAlreadyExists)
	}
	one := recycledLayer{name: strconv.Itoa(s.next), lowest: lowest, parent: parent, root: of.users.HostID, since: time.Now()}
	if of.alone {
		one.name = layerName(of.shard, s.next)
	}
	if err := s.clean(ctx, &one); err != nil {
		s.lowest.drop(lowest)
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.giveBack(ctx, one))
		}
	}()
	if uid, gid := onHost(b.uid, of.users), onHost(b.gid, of.users); uid != 0 || gid != 0 {
		if err := os.Lchown(filepath.Join(s.dir, one.name, upperDir), int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	crash.At("layer.made")
	// A symlink has its text from the moment it exists.
	if err := os.Symlink(one.name+" "+lowest+" "+parent, filepath.Join(s.links, of.id)); err != nil {
		return nil, err
	}
	crash.At("layer.taken")
	s.held[of.id] = &one
	return s.mounts(one, b), nil
}

// clean sets the name of one to that of a free layer, or makes a layer of the name that it has. The mutex is held.
func (s *recycledLayers) clean(ctx context.Context, one *recycledLayer) error {
	// The best is the last freed of those that were mounted in the same way, since the shard may still have it mounted.
	// If there is none, it is the one of the shard that has been free for longest.
	best := -1
	for i, free := range slices.Backward(s.free) {
		if free.mountedAs() == one.mountedAs() {
			best = i
			break
		}
		if free.shard() == one.shard() {
			best = i
		}
	}
	if best >= 0 {
		one.name = s.free[best].name
		s.lowest.drop(s.free[best].lowest)
		s.free = slices.Delete(s.free, best, best+1)
		return nil
	}
	s.next++
	for _, dir := range []string{one.name, filepath.Join(one.name, upperDir), filepath.Join(one.name, workDir)} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), layerMode); err != nil {
			return errors.Join(err, untrusted.Remove(ctx, filepath.Join(s.dir, one.name)))
		}
	}
	return nil
}

// onHost returns the ID on the host of an ID in an image. IDs beyond the range of the user namespace become root's
// there: an image must not reach into the next range.
func onHost(id uint32, users specs.LinuxIDMapping) uint32 {
	switch {
	case users.Size == 0:
		return id
	case id < users.Size:
		return users.HostID + id
	}
	return users.HostID
}

// giveBack frees a layer that was taken in vain, so that another container can have it, or removes it where that is
// impossible. The mutex is held.
func (s *recycledLayers) giveBack(ctx context.Context, one recycledLayer) error {
	dir := filepath.Join(s.dir, one.name)
	if one.shard() == "" || !renew(ctx, filepath.Join(dir, upperDir)) {
		s.lowest.drop(one.lowest)
		return untrusted.Remove(ctx, dir)
	}
	s.free = append(s.free, one)
	return nil
}

func (s *recycledLayers) mounts(one recycledLayer, b base) []mount.Mount {
	options := append([]string{
		"workdir=" + filepath.Join(s.dir, one.name, workDir),
		"upperdir=" + filepath.Join(s.dir, one.name, upperDir),
		"lowerdir=" + b.layers + filepath.Join(s.lowest.dir, one.lowest),
		// Without it, the end of each container waits until all pending writes to the disk are done, those of others
		// too. A layer does not outlive this boot of the host anyway.
		"volatile",
	}, b.options...)
	return []mount.Mount{{Type: "overlay", Source: "overlay", Options: options}}
}

// basePrefix begins the keys of snapshots that exist only while the backend is asked how it would mount one.
const basePrefix = "base-"

// base asks the backend, once for each image, how it would mount a layer over that image.
func (s *recycledLayers) base(ctx context.Context, parent string) (b base, err error) {
	s.mu.Lock()
	b, ok := s.bases[parent]
	s.mu.Unlock()
	if ok {
		return b, nil
	}
	key := basePrefix + parent
	if err := s.backend.Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) { // a crash may have left one
		return b, err
	}
	mounts, err := prepare(ctx, s.backend, key, parent)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, removeLayer(ctx, s.backend, key, mounts)) }()
	b = base{options: []string{"index=off"}}
	for _, m := range mounts {
		if m.Type != "overlay" {
			continue // an image without layers
		}
		b.options = slices.DeleteFunc(slices.Clone(m.Options), func(option string) bool {
			if upper, ok := strings.CutPrefix(option, "upperdir="); ok {
				var info unix.Stat_t
				if err = unix.Stat(upper, &info); err == nil {
					b.uid, b.gid = info.Uid, info.Gid
				}
				return true
			}
			if list, ok := strings.CutPrefix(option, "lowerdir="); ok {
				b.layers = list + ":"
				return true
			}
			return strings.HasPrefix(option, "workdir=")
		})
	}
	if err != nil {
		return b, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bases) >= maxKnownImages {
		clear(s.bases)
	}
	s.bases[parent] = b
	return b, nil
}

// keptName is the name of the file in a layer that says that it is not recycled after all.
const keptName = "kept"

// keep lets the layer of a container be recycled no more, since others may obtain its files from now on.
func (s *recycledLayers) keep(container string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.held[container]
	if one == nil || one.shard() == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(s.dir, one.name, keptName), nil, 0o600); err != nil {
		return fmt.Errorf("layer of container %s: %w", container, err)
	}
	return nil
}

// kept reports whether a layer is not to be recycled after all.
func kept(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, keptName))
	return !errors.Is(err, fs.ErrNotExist)
}

// release takes back the layer of a container. It is emptied and kept for another container, or else removed.
func (s *recycledLayers) release(ctx context.Context, container string) error {
	s.mu.Lock()
	one := s.held[container]
	delete(s.held, container)
	full := len(s.free) >= maxFreeLayers
	s.mu.Unlock()
	if one == nil {
		return nil
	}
	// From here on, a daemon that starts finds that no container has this layer.
	if err := os.Remove(filepath.Join(s.links, container)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("layer of container %s: %w", container, err)
	}
	crash.At("layer.let-go")
	dir := filepath.Join(s.dir, one.name)
	if full || one.shard() == "" || kept(dir) || !renew(ctx, filepath.Join(dir, upperDir)) {
		s.lowest.drop(one.lowest)
		if err := untrusted.Remove(ctx, dir); err != nil {
			return fmt.Errorf("layer of container %s: %w", container, err)
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, *one)
	return nil
}

// renew restores a directory to what it was when it was made, and reports whether that worked.
func renew(ctx context.Context, dir string) bool {
	if untrusted.Empty(ctx, dir) != nil {
		return false
	}
	var info unix.Stat_t
	if unix.Stat(dir, &info) != nil {
		return false
	}
	if info.Uid != 0 || info.Gid != 0 {
		if os.Lchown(dir, 0, 0) != nil {
			return false
		}
	}
	if !plainFlags(dir) {
		return false // chattr +S, +c and the like would be inherited
	}
	if info.Mode&0o7777 != layerMode {
		if os.Chmod(dir, layerMode) != nil {
			return false
		}
	}
	attributes := make([]byte, 1024)
	n, err := unix.Llistxattr(dir, attributes)
	if err != nil {
		return false
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(attributes[:n]), "\x00"), "\x00") {
		if name != "" && unix.Lremovexattr(dir, name) != nil {
			return false
		}
	}
	return true
}

// sweep takes back the layers of containers of an earlier run that are not known any more, and removes those that were
// free.
func (s *recycledLayers) sweep(ctx context.Context, known func(container string) bool) error {
	var errs []error
	for container, one := range s.found {
		s.mu.Lock()
		same := s.held[container] == one
		s.mu.Unlock()
		if same && !known(container) {
			errs = append(errs, s.release(ctx, container))
		}
	}
	errs = append(errs, s.lowest.sweep())
	for _, name := range s.orphans {
		errs = append(errs, untrusted.Remove(ctx, filepath.Join(s.dir, name)))
	}
	return errors.Join(errs...)
}

// of returns the layer of a container.
func (s *recycledLayers) of(container string) (recycledLayer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.held[container]
	if one == nil {
		return recycledLayer{}, false
	}
	return *one, true
}

func (s *recycledLayers) usage(ctx context.Context, one recycledLayer) (snapshots.Usage, error) {
	used, err := untrusted.Usage(ctx, filepath.Join(s.dir, one.name, upperDir))
	return snapshots.Usage{Inodes: used.Inodes, Size: used.Bytes}, err
}

// plainFlags reports whether a directory has the inode flags of one that was made beside it: what a container has set
// on its root directory (chattr) would be inherited by whatever the next container creates there.
func plainFlags(dir string) bool {
	is, err := inodeFlags(dir)
	if err != nil {
		return errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
	}
	was, err := inodeFlags(filepath.Join(filepath.Dir(dir), workDir)) // made at the same time, and never a container's
	return err == nil && is == was
}

// layoutFlags say how a file system lays a directory out, which changes with its entries.
const layoutFlags = 0x1000 | 0x80000 | 0x10000000 // hash tree, extents, inline data

func inodeFlags(dir string) (uint32, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return flags &^ layoutFlags, err
}
