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
	// listenerPatience is how long a listener that only watches may hold a container back by reading nothing.
	listenerPatience = 10 * time.Second
	// heldPieces is how many reads of output may wait for a listener.
	heldPieces = 16
	// restBytes is how much output of a container that has ended is kept for a listener that is behind.
	restBytes = 8 << 20
)

// broadcaster copies one stream of output to everybody who listens to it, beside the log. The zero value has no
// listeners.
type broadcaster struct {
	listeners atomic.Pointer[[]*listener]

	mu      sync.Mutex
	hurried bool
	ended   bool
}

// listener copies a stream's output to a pipe, from the moment it was added. The log does not wait for it; only a
// listener that is far behind makes its container wait.
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

// run copies the output to the pipe until the stream has ended or nobody reads the pipe.
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

// offer queues a piece of output for the listener. Only one goroutine calls it.
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

// err returns why the listener did not get everything.
func (l *listener) err() error {
	if l.slow.Load() {
		return fmt.Errorf("the output was not read for %s, and is not waited for: %w", listenerPatience,
			errdefs.ErrUnavailable)
	}
	return nil
}

// heard reports whether anybody listens. Large pieces are not read for them, since each listener holds many.
func (b *broadcaster) heard() bool { return b.listeners.Load() != nil }

// tell offers a piece of output to every listener.
func (b *broadcaster) tell(piece []byte) {
	all := b.listeners.Load()
	if all == nil {
		return
	}
	for _, l := range *all {
		l.offer(piece)
	}
}

// add adds a listener. It returns false when the stream has ended.
func (b *broadcaster) add(l *listener) bool {
	return b.change(func(all []*listener) []*listener {
		if b.hurried {
			close(l.hurry)
		}
		go l.run()
		return append(all, l)
	})
}

// remove removes a listener.
func (b *broadcaster) remove(l *listener) {
	l.leave()
	b.change(func(all []*listener) []*listener {
		return slices.DeleteFunc(all, func(other *listener) bool { return other == l })
	})
}

func (b *broadcaster) change(to func([]*listener) []*listener) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	var all []*listener
	if now := b.listeners.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = to(all); len(all) == 0 {
		b.listeners.Store(nil)
	} else {
		b.listeners.Store(&all)
	}
	return true
}

// hurry says that the container has ended and waits for no listener from now on. It is called once.
func (b *broadcaster) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hurried = true
	if all := b.listeners.Load(); all != nil {
		for _, l := range *all {
			close(l.hurry)
		}
	}
}

// end is called after the last tell, by the same goroutine.
func (b *broadcaster) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if all := b.listeners.Load(); all != nil {
		for _, l := range *all {
			close(l.queue)
		}
	}
}

// pipe returns a pipe whose ends do not block this process.
func pipe() (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(p[0]), "stream"), os.NewFile(uintptr(p[1]), "stream"), nil
}
