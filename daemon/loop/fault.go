package loop

import (
	"context"
	"errors"
	"syscall"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/store"
)

// An object for which a pass cannot be written, whatever the cause, would stop everything for everybody: the pass is one transaction,
// and would be tried again for ever. So the object is set aside, as one on which the loop hangs is.

const (
	// maxTries is how many passes may fail on one object until it is set aside.
	maxTries = 3
	// maxBlamed is how many objects are set aside while no pass can be written: then it is not the fault of objects.
	maxBlamed = 3
)

// work is what the loop is at work on: an object at a key, for a concern.
type work struct{ concern, key string }

// faults are the passes in a row that could not be written.
type faults struct {
	on     work // of the last one
	tries  int  // that have failed on that
	blamed int  // objects that were set aside meanwhile
}

// notice remembers what the pass is at work on if it cannot be written any more since something of that cannot.
func (p *Pass) notice() {
	if p.culprit == (work{}) && (p.failed != nil || p.tx.Err() != nil) {
		p.culprit = p.loop.work
	}
}

// blame takes in that the work on an object has failed, and sets it aside if that was not the first time.
func (l *Loop) blame(on work, err error) {
	if on.key == "" || l.Aside == nil || !ofObject(err) {
		return
	}
	if l.faults.on != on {
		l.faults.on, l.faults.tries = on, 0
	}
	if l.faults.tries++; l.faults.tries < maxTries || l.faults.blamed >= maxBlamed {
		return
	}
	l.faults.tries = 0
	l.faults.blamed++
	l.Logger.Error("an object is left alone, since nothing can be decided for it", "object", on.key, "concern", on.concern, "error", err)
	if err := l.Aside.Hang(aside.Hang{Concern: on.concern, Key: on.key, Unstored: l.Unstored(on.key), At: l.Clock()}); err != nil {
		l.Logger.Error("cannot note what was set aside", "error", err)
	}
}

// ofObject reports whether an error can be the fault of an object: not of the disk, the store as a whole, or one who gave up.
func ofObject(err error) bool {
	for _, other := range []error{
		store.ErrClosed, store.ErrCompacted, store.ErrFull, store.ErrCorrupt, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	var errno syscall.Errno
	return !errors.As(err, &errno)
}
