package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watcher tells when files in directories have grown or come. However many read at the same time, it takes one inotify
// instance, of which a user has few. The zero value is ready, and holds nothing while nobody watches.
type Watcher struct {
	mu       sync.Mutex
	instance *instance // nil while nobody watches
}

// instance is one of inotify. Guarded by Watcher.mu, but for what its reader does.
type instance struct {
	file    *os.File
	fd      int // of the file, which would be made a blocking one if it were asked
	watches map[int32]map[*watch]struct{}
	count   int
	failed  error // it tells nothing any more
}

// watch is one reader's.
type watch struct {
	watcher *Watcher
	from    *instance
	id      int32
	news    chan struct{} // that something has happened since wait
}

// watch begins to watch a directory.
func (w *Watcher) watch(dir string) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.instance
	if i == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return nil, fmt.Errorf("inotify: %w (see fs.inotify.max_user_instances)", err)
		}
		i = &instance{file: os.NewFile(uintptr(fd), "inotify"), fd: fd, watches: map[int32]map[*watch]struct{}{}}
		w.instance = i
		go w.read(i)
	}
	// A directory that is watched already keeps its number.
	id, err := unix.InotifyAddWatch(i.fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO)
	if err != nil {
		w.closeUnused(i)
		return nil, fmt.Errorf("inotify: %w", err)
	}
	one := &watch{watcher: w, from: i, id: int32(id), news: make(chan struct{}, 1)}
	if i.watches[one.id] == nil {
		i.watches[one.id] = map[*watch]struct{}{}
	}
	i.watches[one.id][one] = struct{}{}
	i.count++
	return one, nil
}

// Close ends the watch.
func (o *watch) Close() {
	w, i := o.watcher, o.from
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(i.watches[o.id], o)
	if len(i.watches[o.id]) == 0 {
		delete(i.watches, o.id)
		if w.instance == i {
			_, _ = unix.InotifyRmWatch(i.fd, uint32(o.id)) // it may have gone with the directory
		}
	}
	i.count--
	w.closeUnused(i)
}

func (w *Watcher) closeUnused(i *instance) {
	if w.instance == i && i.count == 0 {
		w.instance = nil
		i.file.Close() // which ends its reader
	}
}

// read passes on what an instance tells.
func (w *Watcher) read(i *instance) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := i.file.Read(buffer)
		w.mu.Lock()
		if err != nil {
			i.failed = err
			if w.instance == i { // those who come later get another one
				w.instance = nil
				i.file.Close()
			}
			i.tellAll()
			w.mu.Unlock()
			return
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&buffer[at]))
			at += unix.SizeofInotifyEvent + int(event.Len)
			if event.Mask&unix.IN_Q_OVERFLOW != 0 {
				i.tellAll()
				continue
			}
			tell(i.watches[event.Wd])
		}
		w.mu.Unlock()
	}
}

func (i *instance) tellAll() {
	for _, watches := range i.watches {
		tell(watches)
	}
}

func tell(watches map[*watch]struct{}) {
	for o := range watches {
		select {
		case o.news <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// wait returns when something has happened since the last call, or the container has ended; the error is that of ctx.
func (o *watch) wait(ctx context.Context, ended <-chan struct{}) error {
	select {
	case <-o.news:
		o.watcher.mu.Lock()
		defer o.watcher.mu.Unlock()
		if err := o.from.failed; err != nil && !errors.Is(err, os.ErrClosed) {
			return fmt.Errorf("follow log: %w", err)
		}
		return nil
	case <-ended:
	case <-ctx.Done():
	}
	return ctx.Err()
}
