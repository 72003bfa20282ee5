package server

import (
	"os"
	"os/signal"
	"sync"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// reaper waits for all children of this process: those it started, and those it inherited as their subreaper. A
// process keeps its number until the reaper has waited for it, which it does under the lock under which signals are
// sent. So none can hit another process.
type reaper struct {
	mu       sync.Mutex
	children map[int]func(unix.WaitStatus)
	// dying are those that were killed, until that is known to have ended them.
	dying map[int]bool
	// early holds the ends that came before anybody asked for them, while somebody may still ask.
	early   map[int]earlyEnd
	pending int
	ends    uint64 // counted, to tell what ended since when
}

type earlyEnd struct {
	status unix.WaitStatus
	number uint64
}

// newReaper makes this process the subreaper of everything below it, and starts to wait for its children.
func newReaper() (*reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	r := &reaper{children: map[int]func(unix.WaitStatus){}, dying: map[int]bool{}, early: map[int]earlyEnd{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			r.reap()
		}
	}()
	return r, nil
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid == 0 {
			return
		}
		r.ends++
		if exited, ok := r.children[pid]; ok {
			delete(r.children, pid)
			go exited(status)
		} else if r.pending > 0 {
			r.early[pid] = earlyEnd{status, r.ends}
		}
	}
}

// expectation is for processes that are about to be made and then waited for.
type expectation struct {
	r     *reaper
	since uint64
}

// expect is to be called before they are made, and done once they are claimed.
func (r *reaper) expect() expectation {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending++
	return expectation{r, r.ends}
}

func (e expectation) done() {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	if e.r.pending--; e.r.pending == 0 {
		clear(e.r.early)
	}
}

// claim arranges for exited to be called, in a goroutine, when a process that was made since expect ends.
func (e expectation) claim(pid int, exited func(unix.WaitStatus)) {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	early, ok := e.r.early[pid]
	delete(e.r.early, pid)
	if ok && early.number > e.since { // else it was another process of the same number
		go exited(early.status)
		return
	}
	e.r.children[pid] = exited
}

// signal sends a signal to a claimed child that has not ended.
func (r *reaper) signal(pid int, sig unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.children[pid]; !ok {
		return errdefs.ErrNotFound
	}
	return unix.Kill(pid, sig)
}
