// Package thread runs functions on threads of their own, which they may move to other namespaces.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Start calls fn on a thread that nothing else runs on, and that ends with fn. It does not wait for that.
func Start(fn func()) {
	go func() {
		// It is never unlocked, so that the thread ends with the goroutine.
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			fn()
			return
		}
		// The first thread represents the process, and never ends. While it is locked, the goroutine below gets another.
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(begun)
			fn()
		}()
		<-begun
		runtime.UnlockOSThread()
	}()
}

// Run is Start, and waits for the end of fn.
func Run(fn func() error) error {
	done := make(chan error, 1)
	Start(func() { done <- fn() })
	return <-done
}
