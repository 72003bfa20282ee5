package server

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tracedTime is how long a child that was killed may take to end before it is looked at, and looked at again.
const tracedTime = time.Second

// killed sees to it that the end of a claimed child that was killed is told, whoever traces it: its parent learns nothing from the kernel
// before the tracer has taken notice of the end, and any process of the same user may be the tracer. Who does not would keep what a
// container holds, beyond its deadline and against those that come before it.
func (r *reaper) killed(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.children[pid]; ok && !r.dying[pid] {
		r.dying[pid] = true
		time.AfterFunc(tracedTime, func() { r.lookAt(pid) })
	}
}

func (r *reaper) lookAt(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.takeTraced(pid) {
		delete(r.dying, pid)
	} else {
		time.AfterFunc(tracedTime, func() { r.lookAt(pid) })
	}
}

// takeTraced tells the end of a child, if that has ended without a word. It reports whether there is nothing more to be told. The
// caller holds the lock.
func (r *reaper) takeTraced(pid int) bool {
	exited, ok := r.children[pid]
	if !ok {
		return true
	}
	var status unix.WaitStatus
	if is, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); err != nil || is != pid { // else it has ended just now
		if status, ok = endOfTraced(pid); !ok {
			return false
		}
	}
	r.ends++
	delete(r.children, pid)
	go exited(status)
	return true
}

// endOfTraced returns how a process has ended for which only its tracer can wait; false if it has not ended.
func endOfTraced(pid int) (unix.WaitStatus, bool) {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(handle)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 0); err != nil || n == 0 {
		return 0, false
	}
	const exitCode = 52 - 3
	fields, err := statFields(pid, exitCode+1)
	if err != nil {
		return 0, false
	}
	status, err := strconv.Atoi(fields[exitCode])
	return unix.WaitStatus(status), err == nil
}
