package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleDelay is how long the files are left alone after a change, so that few are read half-written.
	settleDelay = 100 * time.Millisecond
	// pollPeriod is how often they are read where inotify is not available.
	pollPeriod = 30 * time.Second
)

// Watch follows the CDI files until ctx ends, and calls changed after they have begun to offer other devices.
// Directories that do not exist yet are noticed when they are made.
func (d *Devices) Watch(ctx context.Context, changed func()) {
	dirs := slices.Clone(d.options.SpecDirs)
	for i := range dirs {
		dirs[i] = filepath.Clean(dirs[i]) // as events name them
	}
	w, err := watchDirs(nil, dirs)
	if err != nil {
		d.options.Logger.Warn("cannot watch for devices: changes of CDI files are noticed late",
			"error", err, "after", pollPeriod)
	}
	due, pending := time.NewTimer(0), true // for what has changed before they were watched
	defer due.Stop()
	for {
		var events chan fsnotify.Event
		var failures chan error
		if w != nil {
			events, failures = w.Events, w.Errors
		}
		select {
		case <-ctx.Done():
			if w != nil {
				_ = w.Close()
			}
			return
		case e := <-events:
			if !pending && concerns(e, dirs) {
				due.Reset(settleDelay)
				pending = true
			}
			continue
		case <-failures: // some events are lost
			if !pending {
				due.Reset(settleDelay)
				pending = true
			}
			continue
		case <-due.C:
		}
		pending = false
		if w, err = watchDirs(w, dirs); err != nil {
			due.Reset(pollPeriod)
		}
		if news, err := d.refresh(); err != nil {
			d.options.Logger.Warn("cannot read which devices there are", "error", err)
		} else if news {
			changed()
		}
	}
}

// concerns reports whether an event is about a CDI file, or about a directory of such files or one of its parents.
func concerns(e fsnotify.Event, dirs []string) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		if filepath.Dir(e.Name) == dir {
			return filepath.Ext(e.Name) == ".json" || filepath.Ext(e.Name) == ".yaml"
		}
		return e.Name == dir || strings.HasPrefix(dir, strings.TrimSuffix(e.Name, "/")+"/")
	})
}

// watchDirs watches directories with w, or with a new watcher if w is nil. Of a directory that does not exist it watches
// the nearest parent. The watcher is nil if there is an error.
func watchDirs(w *fsnotify.Watcher, dirs []string) (*fsnotify.Watcher, error) {
	var err error
	if w == nil {
		if w, err = fsnotify.NewWatcher(); err != nil {
			return nil, fmt.Errorf("inotify: %w", err)
		}
	}
	for _, dir := range dirs {
		if err := watchNearest(w, dir); err != nil {
			_ = w.Close()
			return nil, fmt.Errorf("inotify: %w", err)
		}
	}
	return w, nil
}

func watchNearest(w *fsnotify.Watcher, dir string) error {
	for at := dir; ; {
		missing := ""
		err := w.Add(at)
		for errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			missing, at = at, filepath.Dir(at)
			err = w.Add(at)
		}
		if err != nil || missing == "" {
			return err
		}
		if _, err := os.Lstat(missing); err != nil {
			return nil
		}
		at = dir // it was made before its parent was watched
	}
}
