package pins

import (
	"bytes"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inside is a thread in the mount namespace of the pins.
type inside struct {
	tid   int
	calls chan func()
	ended chan struct{}
}

// start starts a thread, which enter moves to the mount namespace.
func start(enter func() error) (*inside, error) {
	in := &inside{calls: make(chan func()), ended: make(chan struct{})}
	entered := make(chan error)
	go in.run(enter, entered)
	if err := <-entered; err != nil {
		return nil, err
	}
	return in, nil
}

func (in *inside) run(enter func() error, entered chan<- error) {
	// It is never unlocked, so that the thread ends with the goroutine.
	runtime.LockOSThread()
	if in.tid = unix.Gettid(); in.tid == unix.Getpid() {
		// The first thread represents the process: its mounts are those that others see as the process's. While it is
		// locked here, another one takes its place.
		done := make(chan error)
		go in.run(enter, done)
		err := <-done
		runtime.UnlockOSThread()
		entered <- err
		return
	}
	err := unix.Unshare(unix.CLONE_FS) // its root and directory are its own
	if err == nil {
		err = enter()
	}
	entered <- err
	if err != nil {
		return
	}
	for {
		select {
		case call := <-in.calls:
			call()
		case <-in.ended:
			return
		}
	}
}

// do calls fn on the thread.
func (in *inside) do(fn func() error) error {
	done := make(chan error)
	select {
	case in.calls <- func() { done <- fn() }:
		return <-done
	case <-in.ended:
		return os.ErrClosed
	}
}

// end ends the thread.
func (in *inside) end() { close(in.ended) }

// namespace is the path of the thread's mount namespace, for other threads.
func (in *inside) namespace() string { return fmt.Sprintf("/proc/self/task/%d/ns/mnt", in.tid) }

// countMounts counts the mounts that the calling thread sees.
func countMounts() (int, error) {
	all, err := os.ReadFile("/proc/thread-self/mountinfo")
	return bytes.Count(all, []byte{'\n'}), err
}
