package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/thread"
)

// launcher starts OCI runtimes, each in a new mount namespace. The namespace is a copy of the host's at that moment, plus
// the container's root file system, minus what the runtime must not see. Only the runtime holds it. So nothing has to be
// unmounted, nothing is left behind when a shard dies, and a start costs the same however many containers there are. A disk
// that is mounted on the host later is seen by every container that starts after that.
type launcher struct {
	host    int    // the host's mount namespace
	hide    string // what the OCI runtime must not see
	slack   int    // timer slack of what is launched; see calmMonitor
	work    chan func(*launchThread)
	idle    atomic.Int32 // how many threads wait for work
	threads atomic.Int32

	mu       sync.Mutex // guards programs
	programs programs
	overlays overlays
}

// launchThread is a thread that launches. It never ends: the kernel kills each runtime when the thread that started it
// ends, which keeps a half-made container from outliving the shard.
type launchThread struct {
	away bool // it could not get back from the last container's namespace
}

// newLauncher starts the first thread that launches. Another one is started only while all others hang in the kernel,
// which a file system that a pod brings along can cause. slack is the timer slack of what is launched; 0: that of the
// thread, whatever it is.
func newLauncher(hide string, slack int) (*launcher, error) {
	host, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open mount namespace", err)
	}
	l := &launcher{host: host, hide: hide, slack: slack, work: make(chan func(*launchThread)), programs: programs{}}
	l.addThread()
	return l, nil
}

// mostThreads bounds the threads that launch. Where so many hang, a further launch waits until one of them comes back, or
// until it is called off.
const mostThreads = 64

// addThread starts a thread, unless there are as many as there may be.
func (l *launcher) addThread() {
	if l.threads.Add(1) > mostThreads {
		l.threads.Add(-1)
		return
	}
	thread.Start(func() {
		setSlack(l.slack)
		// A thread that shares its root with others cannot go to another mount namespace. If this fails, so will going there.
		_ = unix.Unshare(unix.CLONE_FS)
		t := &launchThread{}
		for {
			l.idle.Add(1)
			task := <-l.work
			l.idle.Add(-1)
			task(t)
		}
	})
}

// launch is a process to be started.
type launch struct {
	shared []string       // paths on the host that mounts spread from and to
	pins   *protocol.Pins // of namespaces that the process looks for; nil: none
	rootfs string         // where mounts go
	mounts []protocol.Mount
	binds  []protocol.Bind // what the process is going to mount there
	// nest returns what to execute instead if some of them may be in others; may be nil.
	nest   func(program string, argv []string) (string, []string, error)
	nested bool            // they are, by their paths
	users  *users          // that the mounts are for; nil: the host's
	host   *protocol.Host  // that is shown; nil: it is not
	login  *uint32         // protocol.Start.Login; over must not be nil then
	over   <-chan struct{} // closed once the process has ended, or nobody waits for that any more
	argv   []string
	// inPlace: the program is executed where it lies, not from a copy in memory.
	inPlace bool
	files   [3]*os.File
	extra   *os.File      // the file after those; may be nil
	begun   func()        // called when it is its turn; may be nil
	before  func() error  // called last before the process is made; may be nil
	after   func(pid int) // called once it is made; may be nil
}

// hangTime is how long a launch may occupy its thread before another one is started for those that wait behind it.
const hangTime = time.Second

// launched is the result of a launch.
type launched struct {
	pid  int
	root *overlay
	err  error
}

// launch mounts a root file system and starts a process that sees it. The overlay, which may be nil, has to be given
// back. When ctx ends first, no process is made, and the error is the cause.
func (l *launcher) launch(ctx context.Context, p launch) (pid int, root *overlay, err error) {
	done := make(chan launched, 1)
	task := func(t *launchThread) {
		late := time.AfterFunc(hangTime, func() {
			if l.idle.Load() == 0 {
				l.addThread()
			}
		})
		defer late.Stop()
		if p.begun != nil {
			p.begun()
		}
		if p.login != nil {
			done <- l.asLogin(ctx, p)
			return
		}
		var r launched
		r.pid, r.root, r.err = l.inside(ctx, t, p)
		t.away = l.leave() != nil
		done <- r
	}
	select {
	case l.work <- task:
	case <-ctx.Done():
		return 0, nil, context.Cause(ctx)
	}
	select {
	case r := <-done:
		return r.pid, r.root, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r.pid, r.root, r.err
	case <-time.After(killTime):
		go func() {
			r := <-done
			if r.pid != 0 {
				killChild(r.pid)
			}
			l.overlays.giveBack(r.root)
		}()
		return 0, nil, context.Cause(ctx)
	}
}

func (l *launcher) inside(ctx context.Context, t *launchThread, p launch) (pid int, root *overlay, err error) {
	if err := l.enter(t, p); err != nil {
		return 0, nil, err
	}
	var own *namespace
	if p.users != nil {
		if own, err = p.users.open(); err != nil {
			return 0, nil, err
		}
		defer own.file.Close()
		if err := p.users.mount(own.file); err != nil {
			return 0, nil, err
		}
	}
	if p.host != nil {
		if err := l.showHost(p.host); err != nil {
			return 0, nil, err
		}
	}
	if root, err = l.overlays.mount(p.mounts, p.rootfs, own); err != nil {
		return 0, nil, err
	}
	nested := false
	if p.host != nil {
		err = linkHost(p.host, p.rootfs)
	} else {
		nested = makeMountPoints(p.rootfs, p.binds, own) || p.nested
	}
	if err != nil {
		return 0, root, err
	}
	if ctx.Err() != nil {
		return 0, root, context.Cause(ctx)
	}
	if p.before != nil {
		if err := p.before(); err != nil {
			return 0, root, err
		}
		if ctx.Err() != nil {
			return 0, root, context.Cause(ctx)
		}
	}
	if err := freshKeys(); err != nil {
		return 0, root, err
	}
	program, argv := p.argv[0], p.argv
	if !p.inPlace {
		l.mu.Lock()
		program = l.programs.path(program)
		l.mu.Unlock()
	}
	if nested && p.nest != nil {
		if program, argv, err = p.nest(program, argv); err != nil {
			return 0, root, err
		}
	}
	pid, err = fork(program, argv, p.files, p.extra)
	if err == nil && p.after != nil {
		p.after(pid)
	}
	return pid, root, err
}

// enter moves the thread to a new mount namespace for a launch.
func (l *launcher) enter(t *launchThread, p launch) error {
	if t.away {
		if err := l.leave(); err != nil {
			return err
		}
	}
	var pinned []*os.File
	if p.pins != nil {
		var err error
		pinned, err = openPins(p.pins)
		defer protocol.CloseAll(pinned)
		if err = errors.Join(err, l.leave()); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	// What is shared with the host is cloned before the namespace is detached, and put back after.
	places := []string{p.rootfs}
	if p.pins != nil {
		places = append(places, p.pins.Paths...)
	}
	shared, err := sharedTrees(p.shared, places)
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
	for i, namespace := range pinned {
		if err := mountPin(namespace, p.pins.Paths[i]); err != nil {
			return err
		}
	}
	if l.hide != "" {
		if err := unix.Unmount(l.hide, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", l.hide, err)
		}
		// crun makes a directory there nevertheless. What is below belongs to the host, and may be read-only.
		if err := unix.Mount("tmpfs", l.hide, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=755"); err != nil {
			return fmt.Errorf("cover %s: %w", l.hide, err)
		}
	}
	return nil
}

// leave moves the calling thread back to the host's mount namespace.
func (l *launcher) leave() error {
	if err := unix.Setns(l.host, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("leave mount namespace: %w", err)
	}
	return nil
}
