package server

import (
	"errors"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

func TestClaimOfAnEndedProcess(t *testing.T) {
	r := &reaper{children: map[int]func(unix.WaitStatus){}, early: map[int]earlyEnd{}}
	end := func(pid int, status unix.WaitStatus) { // what reap does with one that is not claimed
		r.ends++
		r.early[pid] = earlyEnd{status, r.ends}
	}
	other := r.expect()
	end(10, 1)
	end(11, 1)
	mine := r.expect()
	end(10, 2)
	got := make(chan unix.WaitStatus, 2)
	mine.claim(10, func(s unix.WaitStatus) { got <- s })
	if s := <-got; s != 2 {
		t.Errorf("the end of its process is told as %d", s)
	}
	mine.claim(11, func(s unix.WaitStatus) { got <- s })
	if len(got) > 0 || r.children[11] == nil {
		t.Error("a process has the end of an older one of the same number")
	}
	if err := r.signal(12, unix.SIGKILL); !errors.Is(err, errdefs.ErrNotFound) {
		t.Errorf("signal to a process that is not claimed: %v", err)
	}
	end(13, 1)
	mine.done()
	if len(r.early) == 0 {
		t.Error("what somebody may still claim is forgotten")
	}
	other.done()
	if len(r.early) > 0 {
		t.Error("what nobody can claim is kept")
	}
}
