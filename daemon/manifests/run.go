package manifests

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long nothing may change before the directory is read: an editor writes a file in several steps. What is removed
	// or started because of it waits for longer (still).
	settle = 300 * time.Millisecond
	// pollPeriod is how often it is read where it cannot be watched.
	pollPeriod = time.Minute
)

// Run applies what the directory says, now and whenever it changes, until ctx ends.
func (a *Applier) Run(ctx context.Context) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		a.Logger.Warn("cannot watch the directory of manifests: changes are noticed late", "error", err, "after", pollPeriod)
		w = &fsnotify.Watcher{} // nothing comes from its channels
	} else {
		defer w.Close()
	}
	watched := func() bool { return err == nil && w.Add(a.Dir) == nil }
	due := time.NewTimer(0)
	defer due.Stop()
	retry := retryFirst
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.Events:
			// A change of a mode counts: it may be what was wrong.
			if filepath.Clean(e.Name) == filepath.Clean(a.Dir) || IsManifest(filepath.Base(e.Name)) {
				retry = retryFirst
				due.Reset(settle)
			}
			continue
		case failure := <-w.Errors: // some events are lost
			if failure != nil && !errors.Is(failure, fs.ErrClosed) {
				due.Reset(settle)
			}
			continue
		case <-due.C:
		}
		seen := watched() // before it is read, so that no change is missed
		then, wait := a.look(ctx, time.Now()), time.Duration(0)
		switch {
		case then.soon:
			retry = retryFirst
			wait = retry
		case then.failed:
			wait = retry
			retry = min(2*retry, retryLast)
		case !seen:
			wait = pollPeriod
			retry = retryFirst
		default:
			retry = retryFirst
		}
		if then.after > 0 && (wait == 0 || then.after < wait) {
			wait = then.after
		}
		if wait > 0 {
			due.Reset(wait)
		}
	}
}
