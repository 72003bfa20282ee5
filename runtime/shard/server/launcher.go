package server

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// launcher starts OCI runtimes, each in a new mount namespace: a copy of the host's at that moment, with the
// container's root file system mounted and without what the runtime must not see. Only the runtime holds the
// namespace, so that nothing has to be unmounted, nothing is left when a shard dies, the cost of a start does not grow
// with the number of containers, and a disk that is mounted on the host is seen by every container that starts later.
type launcher struct {
	host int    // the host's mount namespace
	hide string // what the OCI runtime must not see
	work chan func()
	away bool // the thread could not get back from the last container's namespace

	programs programs
	overlays overlays
}

// newLauncher starts the thread that launches. There is only one, since each runtime is killed by the kernel when the
// thread that started it ends, so that a half-made container does not outlive the shard.
func newLauncher(hide string) (*launcher, error) {
	host, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open mount namespace", err)
	}
	l := &launcher{host: host, hide: hide, work: make(chan func()), programs: programs{}}
	go func() {
		runtime.LockOSThread()
		for task := range l.work {
			task()
		}
	}()
	return l, nil
}

// launch is a process to be started.
type launch struct {
	shared []string // paths on the host that mounts spread from and to
	rootfs string   // where mounts go
	mounts []protocol.Mount
	argv   []string
	files  [3]*os.File
	before func() error // called last before the process is made; may be nil
}

// launch mounts a root file system and starts a process that sees it. The overlay, which may be nil, has to be given
// back.
func (l *launcher) launch(p launch) (pid int, root *overlay, err error) {
	done := make(chan struct{})
	l.work <- func() {
		defer close(done)
		pid, root, err = l.inside(p)
		l.away = unix.Setns(l.host, unix.CLONE_NEWNS) != nil
	}
	<-done
	return pid, root, err
}

func (l *launcher) inside(p launch) (pid int, root *overlay, err error) {
	if err := l.enter(p.shared, p.rootfs); err != nil {
		return 0, nil, err
	}
	if root, err = l.overlays.mount(p.mounts, p.rootfs); err != nil {
		return 0, nil, err
	}
	if p.before != nil {
		if err := p.before(); err != nil {
			return 0, root, err
		}
	}
	pid, err = fork(l.programs.path(p.argv[0]), p.argv, p.files)
	return pid, root, err
}

func (l *launcher) enter(paths []string, rootfs string) error {
	if l.away {
		if err := unix.Setns(l.host, unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("leave mount namespace: %w", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	// What is shared with the host is cloned before the namespace is detached, and put back after.
	shared, err := sharedTrees(paths, rootfs)
	if err != nil {
		return err
	}
	trees := make([]int, 0, len(shared))
	defer func() {
		for _, tree := range trees {
			unix.Close(tree)
		}
	}()
	for _, path := range shared {
		tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("share mounts of %s: %w", path, err)
		}
		trees = append(trees, tree)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detach mount namespace: %w", err)
	}
	for i, tree := range trees {
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, shared[i], unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("share mounts of %s: %w", shared[i], err)
		}
	}
	if l.hide != "" {
		if err := unix.Unmount(l.hide, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", l.hide, err)
		}
	}
	return nil
}
