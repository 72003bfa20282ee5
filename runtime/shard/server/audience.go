package server

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

const (
	// audiencePatience is how long somebody who only looks on may hold a container back by reading nothing.
	audiencePatience = 10 * time.Second
	// heldPieces is how many reads of output may wait for a listener.
	heldPieces = 16
	// restBytes is how much output of a container that has ended is kept for a listener that is behind.
	restBytes = 8 << 20
)

// audience are those who listen to one stream of output, beside the log. The zero value is nobody.
type audience struct {
	listeners atomic.Pointer[[]*listener]

	mu      sync.Mutex
	hurried bool
	ended   bool
}

// listener takes a stream's output from the moment it was added, and brings it to a pipe. It is not in the way of the log:
// only a listener that is far behind makes its container wait.
type listener struct {
	pipe     *os.File
	patience time.Duration // 0: for ever

	queue chan []byte
	rest  []byte        // what came after the end and did not fit into the queue; read once that is closed
	hurry chan struct{} // closed when the container waits no more
	gone  chan struct{} // closed, by leave, when nobody reads the pipe any more
	leave func()
	done  chan struct{} // closed when the pipe is

	slow  atomic.Bool // why it left
	onCut func()      // called then
}

func newListener(pipe *os.File, patience time.Duration, onCut func()) *listener {
	l := &listener{
		pipe: pipe, patience: patience, onCut: onCut, queue: make(chan []byte, heldPieces),
		hurry: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	l.leave = sync.OnceFunc(func() { close(l.gone) })
	return l
}

// run brings the output to the pipe until the stream has ended or nobody reads it.
func (l *listener) run() {
	defer close(l.done)
	defer l.pipe.Close()
	defer l.leave()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // a write is given up when the listener leaves
		select {
		case <-l.gone:
			l.pipe.SetWriteDeadline(time.Unix(1, 0))
		case <-stop:
		}
	}()
	for {
		select {
		case <-l.gone:
			return
		case b, ok := <-l.queue:
			if !ok {
				_, _ = l.pipe.Write(l.rest)
				return
			}
			if _, err := l.pipe.Write(b); err != nil {
				return
			}
		}
	}
}

// offer gives a piece of output to the listener. It is called by one goroutine.
func (l *listener) offer(b []byte) {
	b = slices.Clone(b)
	if len(l.rest) == 0 {
		select {
		case l.queue <- b:
			return
		default:
		}
		var late <-chan time.Time
		if l.patience > 0 {
			timer := time.NewTimer(l.patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case l.queue <- b:
			return
		case <-l.gone:
			return
		case <-late:
			l.cut()
			return
		case <-l.hurry:
		}
	}
	if len(l.rest)+len(b) > restBytes {
		l.cut()
		return
	}
	l.rest = append(l.rest, b...)
}

func (l *listener) cut() {
	l.slow.Store(true)
	l.leave()
	l.onCut()
}

// err is why the listener has not got everything.
func (l *listener) err() error {
	if l.slow.Load() {
		return fmt.Errorf("the output was not read for %s, and is not waited for: %w", audiencePatience, errdefs.ErrUnavailable)
	}
	return nil
}

// tell gives everybody a piece of output.
func (a *audience) tell(b []byte) {
	all := a.listeners.Load()
	if all == nil {
		return
	}
	for _, l := range *all {
		l.offer(b)
	}
}

// add begins to tell a listener. It returns false when there is nothing more to tell.
func (a *audience) add(l *listener) bool {
	return a.change(func(all []*listener) []*listener {
		if a.hurried {
			close(l.hurry)
		}
		go l.run()
		return append(all, l)
	})
}

// remove lets a listener go.
func (a *audience) remove(l *listener) {
	l.leave()
	a.change(func(all []*listener) []*listener {
		return slices.DeleteFunc(all, func(other *listener) bool { return other == l })
	})
}

func (a *audience) change(to func([]*listener) []*listener) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	var all []*listener
	if now := a.listeners.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = to(all); len(all) == 0 {
		a.listeners.Store(nil)
	} else {
		a.listeners.Store(&all)
	}
	return true
}

// hurry has nobody waited for from now on, since the container has ended. It is called once.
func (a *audience) hurry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hurried = true
	if all := a.listeners.Load(); all != nil {
		for _, l := range *all {
			close(l.hurry)
		}
	}
}

// end is called after the last tell, by its goroutine.
func (a *audience) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if all := a.listeners.Load(); all != nil {
		for _, l := range *all {
			close(l.queue)
		}
	}
}

// pipe makes one whose ends do not block this process.
func pipe() (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(p[0]), "stream"), os.NewFile(uintptr(p[1]), "stream"), nil
}
