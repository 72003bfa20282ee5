package logs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// pollPeriod is how often a reader looks by itself where inotify is not available.
const pollPeriod = 250 * time.Millisecond

// Watcher notices when files in directories have grown or appeared. However many read at the same time, it takes one
// inotify instance, of which a user has few. Where the processes of the same user, those of pods among them, have taken
// all there are, readers look now and then. The zero value is ready, and holds nothing while nobody watches.
type Watcher struct {
	mu       sync.Mutex
	instance *instance // nil while nobody watches
}

// instance is one of inotify. Guarded by Watcher.mu.
type instance struct {
	notify  *fsnotify.Watcher
	watches map[string]map[*watch]struct{} // by directory
	failed  error                          // it reports nothing any more
}

// watch is one reader's.
type watch struct {
	watcher *Watcher
	from    *instance // nil: it polls
	dir     string
	news    chan struct{} // that something has happened since wait
}

// watch begins to watch a directory.
func (w *Watcher) watch(dir string) (*watch, error) {
	dir = filepath.Clean(dir) // as events name it
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.instance
	if i == nil {
		notify, err := fsnotify.NewWatcher()
		if exhausted(err) {
			return &watch{watcher: w}, nil
		} else if err != nil {
			return nil, fmt.Errorf("inotify: %w", err)
		}
		i = &instance{notify: notify, watches: map[string]map[*watch]struct{}{}}
		w.instance = i
		go w.read(i)
	}
	// Also one that is watched already: it may have been removed and made anew.
	if err := i.notify.Add(dir); err != nil {
		w.closeUnused(i)
		if exhausted(err) {
			return &watch{watcher: w}, nil
		}
		return nil, fmt.Errorf("inotify: %w", err)
	}
	one := &watch{watcher: w, from: i, dir: dir, news: make(chan struct{}, 1)}
	if i.watches[dir] == nil {
		i.watches[dir] = map[*watch]struct{}{}
	}
	i.watches[dir][one] = struct{}{}
	return one, nil
}

// exhausted reports whether there are no more instances (fs.inotify.max_user_instances), watches (max_user_watches) or
// descriptors.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOSPC)
}

// Close ends the watch.
func (o *watch) Close() {
	w, i := o.watcher, o.from
	if i == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(i.watches[o.dir], o)
	if len(i.watches[o.dir]) == 0 {
		delete(i.watches, o.dir)
		_ = i.notify.Remove(o.dir) // the watch may have gone with the directory
	}
	w.closeUnused(i)
}

func (w *Watcher) closeUnused(i *instance) {
	if w.instance == i && len(i.watches) == 0 {
		w.close(i)
	}
}

// close ends an instance and its reader. Those who come later get another one.
func (w *Watcher) close(i *instance) {
	w.instance = nil
	_ = i.notify.Close()
}

// read passes on what an instance reports.
func (w *Watcher) read(i *instance) {
	for {
		select {
		case event, ok := <-i.notify.Events:
			if !ok {
				return
			}
			w.mu.Lock()
			wake(i.watches[filepath.Dir(event.Name)])
			w.mu.Unlock()
		case err, ok := <-i.notify.Errors:
			if !ok {
				return
			}
			w.mu.Lock()
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				i.failed = err
				if w.instance == i {
					w.close(i)
				}
			}
			for _, watches := range i.watches {
				wake(watches)
			}
			w.mu.Unlock()
		}
	}
}

func wake(watches map[*watch]struct{}) {
	for o := range watches {
		select {
		case o.news <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// wait returns when something has happened since the last call, or may have, or the container has ended; the error is
// that of ctx.
func (o *watch) wait(ctx context.Context, ended <-chan struct{}) error {
	var poll <-chan time.Time
	if o.from == nil {
		timer := time.NewTimer(pollPeriod)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-poll:
	case <-o.news:
		o.watcher.mu.Lock()
		defer o.watcher.mu.Unlock()
		if err := o.from.failed; err != nil {
			return fmt.Errorf("follow log: %w", err)
		}
		return nil
	case <-ended:
	case <-ctx.Done():
	}
	return ctx.Err()
}
