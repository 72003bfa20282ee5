package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/jobd/jobd/store"
)

const (
	// pageSize is how many objects or changes a watcher reads from the store at once. It holds no snapshot while it
	// hands them on, which may take as long as its client likes.
	pageSize = 100
	// pageBytes is how many bytes of objects are enough for a page.
	pageBytes = 1 << 20
	// eventBuffer is how many decoded events wait for a client, waitingBytes how many bytes they have unless it is one alone, and
	// minDrain and maxDrain are how often it is looked whether the client has come that far.
	eventBuffer        = 16
	waitingBytes       = smallObject
	minDrain, maxDrain = time.Millisecond, 256 * time.Millisecond
	// beforeDeadline is how long before a watch ends its last bookmark is sent, so that the next one begins near to it.
	beforeDeadline = 2 * time.Second
	// retryAfter is after how many seconds a client should retry that asks for a version from the future.
	retryAfter = 1
)

// Watch follows the changes of the objects under a key, or of the one at it, from a version on; without one, it begins
// with the objects that are there.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	from, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, badVersion(err)
	}
	w := &watcher{
		storage: s, key: key, opts: opts, all: opts.Predicate.Empty(), results: make(chan watch.Event, eventBuffer),
		unread: unreadOf(ctx),
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	initial := opts.SendInitialEvents == nil && from == 0 || opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if from == 0 && !initial {
		from = s.store.Version()
	}
	go w.run(from, initial)
	return w, nil
}

// watcher is one watch: a goroutine and a position in the log.
type watcher struct {
	storage *Storage
	key     string
	opts    storage.ListOptions
	all     bool // every object matches
	ctx     context.Context
	cancel  context.CancelFunc
	results chan watch.Event
	unread  *Unread
	// sizes are those of the events that were sent last, as they are stored.
	sizes [eventBuffer]int
	sent  int
}

func (w *watcher) Stop() { w.cancel() }

func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

func (w *watcher) run(from uint64, initial bool) {
	defer close(w.results)
	defer w.cancel()
	w.storage.shares.join()
	defer w.storage.shares.leave()
	err := func() (err error) {
		defer func() {
			if w.storage.Panicked == nil {
				return
			}
			if reason := recover(); reason != nil {
				err = w.storage.Panicked(w.ctx, reason)
			}
		}()
		if initial {
			at, err := w.sendInitial(from)
			if err != nil {
				return err
			}
			from = at
		}
		utilflowcontrol.WatchInitialized(w.ctx) // what has been served costs little from now on
		return w.follow(from)
	}()
	if w.ctx.Err() != nil {
		return
	}
	w.send(watch.Event{Type: watch.Error, Object: asStatus(w.key, err)})
}

func asStatus(key string, err error) runtime.Object {
	if errors.Is(err, store.ErrCompacted) {
		err = apierrors.NewResourceExpired(watchExpired)
	}
	var api apierrors.APIStatus
	if !errors.As(interpret(key, err), &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	return &status
}

// drained waits until so few events wait for the client that one of so many bytes may be added. A client that does not read holds
// little: thousands may do that.
func (w *watcher) drained(size int) error {
	for pause := minDrain; ; pause = min(2*pause, maxDrain) {
		waiting, bytes := len(w.results), size
		for i := range waiting {
			bytes += w.sizes[(w.sent-1-i+eventBuffer)%eventBuffer]
		}
		if waiting == 0 || bytes <= waitingBytes {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

// hold waits until an event may be held that takes so many bytes, and is not small.
func (w *watcher) hold(size int) error {
	if err := w.drained(size); err != nil {
		return err
	}
	return w.unread.hold(w.ctx, size)
}

// sendSized is send for an object that has so many bytes as it is stored. If it is not small, it is held already.
func (w *watcher) sendSized(e watch.Event, size int) error {
	if err := w.drained(size); err != nil {
		return err
	}
	w.sizes[w.sent%eventBuffer] = size
	w.sent++
	if size > smallObject {
		return w.unread.send(w.ctx, w.results, e)
	}
	if !w.send(e) {
		return w.ctx.Err()
	}
	return nil
}

// send reports whether the client took an event that is small.
func (w *watcher) send(e watch.Event) bool {
	select {
	case w.results <- e:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// sendInitial sends the objects that are there, page by page and all at one version, which it returns.
func (w *watcher) sendInitial(notOlder uint64) (uint64, error) {
	var at uint64
	from := w.key
	for more := true; more; {
		var page []sized
		err := w.storage.store.View(func(sn *store.Snapshot) (err error) {
			if at == 0 {
				at = sn.Version()
			}
			if notOlder > at {
				return storage.NewTooLargeResourceVersionError(notOlder, at, retryAfter)
			}
			page, from, more, err = w.page(sn, at, from)
			return err
		})
		if err != nil {
			return 0, err
		}
		for i := range page {
			e := watch.Event{Type: watch.Added, Object: page[i].object}
			page[i].object = nil
			if size := page[i].size; size > smallObject {
				if err := w.hold(size); err != nil {
					return 0, err
				}
			}
			if err := w.sendSized(e, page[i].size); err != nil {
				return 0, err
			}
		}
	}
	if w.opts.SendInitialEvents != nil && *w.opts.SendInitialEvents && w.opts.Predicate.AllowWatchBookmarks {
		mark, err := w.bookmark(at)
		if err != nil {
			return 0, err
		}
		if err := storage.AnnotateInitialEventsEndBookmark(mark.Object); err != nil {
			return 0, err
		}
		if err := w.sendSized(mark, 0); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// sized is an object with its size as it is stored.
type sized struct {
	object runtime.Object
	size   int
}

// page reads the objects of a past version from a key on; next is where the page after it begins.
func (w *watcher) page(
	sn *store.Snapshot, at uint64, from string,
) (page []sized, next string, more bool, err error) {
	past, err := sn.At(at, w.key)
	if err != nil {
		return nil, "", false, err
	}
	seen, bytes := 0, 0
	past.Range(from, wanted(w.ctx, w.opts.Predicate.Label), func(o store.Object) bool {
		if err = w.ctx.Err(); err != nil {
			return false
		}
		if !w.opts.Recursive && o.Key != w.key {
			return false
		}
		if seen >= pageSize || bytes >= pageBytes {
			next, more = o.Key, true
			return false
		}
		seen++
		bytes += len(o.Value)
		var obj runtime.Object
		if obj, err = w.decode(o, o.Version); err != nil {
			return false
		}
		if w.matches(obj) {
			page = append(page, sized{obj, len(o.Value)})
		}
		return true
	})
	return page, next, more, err
}

// follow sends what the log has after a version, until the watch ends. That of a namespace ends where a later one of its name begins: who
// was let into the former one has not been let into that.
func (w *watcher) follow(from uint64) error {
	if err := w.storage.store.View(func(sn *store.Snapshot) (err error) {
		from, err = sinceBirth(sn, w.key, from)
		return err
	}); err != nil {
		return err
	}
	birth, gone := birthKey(w.key), false
	c := w.storage.store.Cursor(from, w.key).Also(birth).Sparing(smallObject, w.hold)
	next := w.nextBookmark()
	for {
		changes, at, err := w.read(c, next)
		if err != nil {
			return err
		}
		for _, change := range changes {
			if birth != "" && change.Object.Key == birth {
				w.unread.forget()
				if gone && !change.Deleted {
					return store.ErrCompacted
				}
				gone = change.Deleted
				continue
			}
			if !w.opts.Recursive && change.Object.Key != w.key {
				w.unread.forget()
				continue
			}
			e, err := w.event(change)
			if err != nil {
				return err
			}
			if e.Object == nil {
				w.unread.forget()
				continue
			}
			if err := w.sendSized(e, change.Bytes()); err != nil {
				return err
			}
		}
		if now := w.storage.now(); !next.IsZero() && !now.Before(next) {
			mark, err := w.bookmark(at)
			if err != nil {
				return err
			}
			if err := w.sendSized(mark, 0); err != nil {
				return err
			}
			next = w.nextBookmark()
		}
	}
}

// read waits for changes, but not longer than until a bookmark is due.
func (w *watcher) read(c *store.Cursor, due time.Time) ([]store.Change, uint64, error) {
	ctx := w.ctx
	if !due.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, due.Sub(w.storage.now()))
		defer cancel()
	}
	changes, at, err := c.Next(ctx, pageSize)
	if errors.Is(err, context.DeadlineExceeded) && w.ctx.Err() == nil {
		err = nil
	}
	return changes, at, err
}

// nextBookmark returns when the watcher wants its next bookmark; zero for never.
func (w *watcher) nextBookmark() time.Time {
	if !w.opts.ProgressNotify && !w.opts.Predicate.AllowWatchBookmarks {
		return time.Time{}
	}
	now := w.storage.now()
	next := now.Add(w.storage.bookmarks)
	if end, ok := w.ctx.Deadline(); ok {
		if last := end.Add(-beforeDeadline); last.After(now) && last.Before(next) {
			next = last
		}
	}
	return next
}

func (w *watcher) bookmark(at uint64) (watch.Event, error) {
	obj := w.storage.newFunc()
	if err := w.storage.versioner.UpdateObject(obj, at); err != nil {
		return watch.Event{}, fmt.Errorf("bookmark: %w", err)
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}, nil
}

// event returns the event that a change is for this watcher: an object that begins to match is added to its view and
// one that ceases to match is deleted from it. The event has no object when the change does not concern the watcher.
func (w *watcher) event(c store.Change) (watch.Event, error) {
	var was, is runtime.Object
	var err error
	if c.Previous != nil && (c.Deleted || !w.all) {
		if was, err = w.share(*c.Previous, shareKey{c.Version, true}); err != nil {
			if c.Deleted {
				err = unreadableDeletion(err)
			}
			return watch.Event{}, err
		}
	}
	if !c.Deleted {
		if is, err = w.share(c.Object, shareKey{c.Version, false}); err != nil {
			return watch.Event{}, err
		}
	}
	matched := c.Previous != nil && (was == nil || w.matches(was))
	matches := is != nil && w.matches(is)
	switch {
	case matches && matched:
		return watch.Event{Type: watch.Modified, Object: is}, nil
	case matches:
		return watch.Event{Type: watch.Added, Object: is}, nil
	case matched:
		return watch.Event{Type: watch.Deleted, Object: was}, nil
	}
	return watch.Event{}, nil
}

func (w *watcher) matches(obj runtime.Object) bool {
	if w.all {
		return true
	}
	if s, ok := obj.(*shared); ok {
		obj = s.object
	}
	matched, err := w.opts.Predicate.Matches(obj)
	return err == nil && matched
}

// share returns a state of an object in the form that watchers share, if there are several.
func (w *watcher) share(o store.Object, key shareKey) (runtime.Object, error) {
	s := w.storage.shares.get(key, len(o.Value))
	if s == nil {
		return w.decode(o, key.version)
	}
	if err := s.decode(func() (runtime.Object, error) { return w.decode(o, key.version) }); err != nil {
		return nil, err
	}
	return s, nil
}

func (w *watcher) decode(o store.Object, version uint64) (runtime.Object, error) {
	return w.storage.decodeNew(strings.Clone(o.Key), o.Value, version, w.storage.newFunc())
}
