// Package pins keeps namespaces alive by mounts, so that no process has to.
//
// An open namespace and a path come in, and from then on the path leads to that namespace, for users of this package and
// for the shards. The mounts are not among the host's, which each start of a container copies twice, and which systemd
// reads again with each that comes or goes. They are in a mount namespace of their own, which has nothing but /proc and the
// state directory. That one is pinned by the only two mounts on the host, STATE/pins/private and the mnt in it: the second
// is of a kind that new mount namespaces get no copy of.
//
// Whoever may remove files in the state directory may remove pins, as the kernel gives up what is mounted on them.
package pins

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/crash"
)

// Pins are the namespaces that are pinned in one state directory. They are safe for concurrent use. The zero value has
// mounts of the host.
type Pins struct {
	onHost bool
	state  string
	mounts string   // where their mount namespace is pinned
	inside *inside  // nil: there is none, only mounts of the host
	root   *os.File // of the mount namespace
}

// Open returns the pins of a state directory, with those of an earlier run. With onHost new ones are mounts of the host,
// as an older version made them, for shards that know of nothing else. The same holds where no mount namespace can be made.
// Of several that have them open, all but one must be closed while something is pinned.
func Open(state layout.State, onHost bool, logger *slog.Logger) (*Pins, error) {
	state = layout.State(filepath.Clean(string(state)))
	p := &Pins{onHost: onHost, state: string(state), mounts: state.PinMounts()}
	namespace, err := openNamespace(p.mounts)
	switch {
	case err == nil:
		err = p.enter(namespace)
		namespace.Close()
	case !errors.Is(err, fs.ErrNotExist):
	case onHost:
		err = nil
	default:
		if err = p.make(); err != nil {
			logger.Info("the namespaces of pods are mounts of the host: the more pods run, the longer a start takes", "error", err)
			p.onHost, err = true, p.unmountAll()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("mount namespace of pins: %w", err)
	}
	return p, nil
}

// enter finds what is pinned in a mount namespace.
func (p *Pins) enter(namespace *os.File) error {
	return p.begin(func() error { return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS) }, nil)
}

// begin starts the thread in the mount namespace that enter moves it to. Before anything is pinned there, keep is called,
// which may be nil.
func (p *Pins) begin(enter func() error, keep func(in *inside) error) error {
	in, err := start(enter)
	if err != nil {
		return err
	}
	root := -1
	if err = in.do(func() (err error) {
		root, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	}); err == nil && keep != nil {
		err = keep(in)
	}
	if err != nil {
		_ = in.end(func() error { return unix.Close(root) })
		return err
	}
	p.inside, p.root = in, os.NewFile(uintptr(root), "/")
	return nil
}

// make makes the mount namespace, and pins it.
func (p *Pins) make() error {
	dir := filepath.Dir(p.mounts)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := p.unmountAll(); err != nil { // what a crash has left
		return err
	}
	// A mount namespace can be mounted only where the mount would spread to no other one.
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	crash.At("pins.directory")
	if err := os.WriteFile(p.mounts, nil, 0o400); err != nil {
		return err
	}
	return p.begin(func() error { return furnish(dir, p.state) }, func(in *inside) error {
		crash.At("pins.made")
		// Nor can it be mounted in one that may be newer. A new one never is, except that Linux 6.18 takes their numbers for
		// their ages, and each processor hands out numbers of its own. Only that of the first of all is always the lowest.
		if err := unix.Mount(in.namespace(), p.mounts, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", p.mounts, err)
		}
		crash.At("pins.mounted")
		return nil
	})
}

// furnish gives the calling thread a mount namespace with nothing but what pins need. dir is a directory that may be
// covered in it.
func furnish(dir, state string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// The state directory has the same path there, so that a pin has too.
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=700"); err != nil {
		return err
	}
	for _, at := range []string{"/proc", state} {
		in := filepath.Join(dir, at)
		if err := os.MkdirAll(in, 0o711); err != nil {
			return err
		}
		if err := unix.Mount(at, in, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", at, err)
		}
	}
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// furniture is how many mounts furnish leaves.
const furniture = 3

// Close leaves all that is pinned to the next Open. If nothing is, nothing is left on the host. It may be repeated.
func (p *Pins) Close() error {
	if p.inside == nil {
		return nil
	}
	empty := false
	err := p.inside.end(func() error {
		left, err := countMounts()
		empty = err == nil && left == furniture
		return err
	})
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	p.root.Close()
	if empty {
		err = p.unmountAll()
	}
	if err != nil {
		return fmt.Errorf("mount namespace of pins: %w", err)
	}
	return nil
}

// Pin makes path, below the state directory, lead to a namespace. Nothing may be pinned there.
func (p *Pins) Pin(path string, namespace *os.File) error {
	file, err := os.OpenFile(path, os.O_CREATE, 0o444)
	if err != nil {
		return err
	}
	file.Close()
	mount := func() error {
		return unix.Mount("/proc/self/fd/"+strconv.Itoa(int(namespace.Fd())), path, "", unix.MS_BIND, "")
	}
	if p.inside == nil || p.onHost {
		err = mount()
	} else {
		err = p.inside.do(mount)
	}
	if err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	return nil
}

// Find opens the namespace that a path leads to. The error is fs.ErrNotExist if there certainly is none.
func (p *Pins) Find(path string) (*os.File, error) {
	namespace, _, err := p.find(path)
	return namespace, err
}

// Reach returns a path by which this process and its children reach the namespace that a path leads to. Errors are those
// of Find.
func (p *Pins) Reach(path string) (string, error) {
	namespace, at, err := p.find(path)
	if err != nil {
		return "", err
	}
	return at, namespace.Close()
}

// Hides reports whether a path leads to a namespace only in the mount namespace at Mounts, not in the host's. Errors are
// those of Find.
func (p *Pins) Hides(path string) (bool, error) {
	if !p.mayHave(path) {
		return false, nil
	}
	at, err := p.Reach(path)
	return at != path, err
}

// find opens the namespace that a path leads to, and returns the path by which it was found.
func (p *Pins) find(path string) (namespace *os.File, at string, err error) {
	if p.mayHave(path) {
		at = fmt.Sprintf("/proc/%d/fd/%d%s", os.Getpid(), p.root.Fd(), path)
		namespace, err = openNamespace(at)
		if p.inside.isEnded() { // and what was found is anything
			if err == nil {
				namespace.Close()
			}
			return nil, "", os.ErrClosed
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return namespace, at, err
		}
	}
	namespace, err = openNamespace(path) // a mount of the host
	return namespace, path, err
}

// mayHave reports whether the mount namespace may have something at a path.
func (p *Pins) mayHave(path string) bool {
	return p.inside != nil && strings.HasPrefix(path, p.state+"/")
}

// Mounts is the path of the mount namespace that has the pins.
func (p *Pins) Mounts() string { return p.mounts }

// Unpin removes a path with what is pinned there, if anything is. It needs no Pins: with a file, the kernel removes what
// other mount namespaces have mounted on it.
func Unpin(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// UnpinAll removes all that a directory has, with what is pinned there, except the file named keep. There need be no such
// directory.
func UnpinAll(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() == keep {
			continue
		}
		if err := Unpin(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
		crash.At("unpinned", filepath.Base(filepath.Dir(dir)))
	}
	return nil
}

// openNamespace opens a path if it leads to a namespace; otherwise the error is fs.ErrNotExist.
func openNamespace(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &stat); err != nil {
		file.Close()
		return nil, os.NewSyscallError("fstatfs", err)
	}
	if stat.Type != unix.NSFS_MAGIC {
		file.Close()
		return nil, fmt.Errorf("%s leads to no namespace: %w", path, fs.ErrNotExist)
	}
	return file, nil
}

// unmountAll unmounts what keeps the mount namespace.
func (p *Pins) unmountAll() error {
	for _, path := range []string{p.mounts, filepath.Dir(p.mounts)} {
		err := unix.Unmount(path, unix.MNT_DETACH)
		for err == nil { // it may lie there more than once
			err = unix.Unmount(path, unix.MNT_DETACH)
		}
		if err != unix.EINVAL && err != unix.ENOENT {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	return nil
}
