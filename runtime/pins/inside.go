package pins

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/thread"
)

// inside is a thread in the mount namespace of the pins.
type inside struct {
	tid   int
	calls chan func() (last bool)
	ended chan struct{}
}

// start starts a thread, which enter moves to the mount namespace.
func start(enter func() error) (*inside, error) {
	in := &inside{calls: make(chan func() bool), ended: make(chan struct{})}
	entered := make(chan error)
	thread.Start(func() {
		in.tid = unix.Gettid()
		err := unix.Unshare(unix.CLONE_FS) // its root and directory are its own
		if err == nil {
			err = enter()
		}
		entered <- err
		if err != nil {
			return
		}
		defer close(in.ended)
		for call := range in.calls {
			if call() {
				return
			}
		}
	})
	if err := <-entered; err != nil {
		return nil, err
	}
	return in, nil
}

// do calls fn on the thread. The error is os.ErrClosed once that has ended.
func (in *inside) do(fn func() error) error { return in.call(fn, false) }

// end calls fn on the thread, which then ends.
func (in *inside) end(fn func() error) error {
	err := in.call(fn, true)
	<-in.ended
	return err
}

func (in *inside) isEnded() bool {
	select {
	case <-in.ended:
		return true
	default:
		return false
	}
}

func (in *inside) call(fn func() error, last bool) error {
	done := make(chan error, 1)
	select {
	case in.calls <- func() bool { done <- fn(); return last }:
		return <-done
	case <-in.ended:
		return os.ErrClosed
	}
}

// namespace is the path of the thread's mount namespace, for other threads.
func (in *inside) namespace() string { return fmt.Sprintf("/proc/self/task/%d/ns/mnt", in.tid) }

// countMounts counts the mounts that the calling thread sees.
func countMounts() (int, error) {
	all, err := os.ReadFile("/proc/thread-self/mountinfo")
	return bytes.Count(all, []byte{'\n'}), err
}
