package storage

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/store"
)

// GetList reads the objects under a key, or the one at it. All pages of a list show one version, the first page's, as
// long as the history reaches back to it.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	prefix, err := s.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	items, err := itemsOf(listObj)
	if err != nil {
		return err
	}
	at, from, err := storage.ValidateListOptions(prefix, s.versioner, opts)
	if err != nil {
		return err
	}
	l := list{
		storage: s, ctx: ctx, opts: opts, prefix: prefix, from: max(prefix, from), items: items,
		each: int(items.Type().Elem().Size()), whole: wholeFactorOf(ctx),
	}
	err = s.store.View(func(sn *store.Snapshot) error { return l.read(sn, uint64(at)) })
	if err != nil {
		return interpret(prefix, err)
	}
	token, remaining, err := storage.PrepareContinueToken(l.last, prefix, int64(l.version), l.count, l.more, opts)
	if err != nil {
		return err
	}
	if remaining != nil {
		*remaining = l.count - int64(items.Len()) // it may be fewer than the limit
	}
	return s.versioner.UpdateList(listObj, l.version, token, remaining)
}

func itemsOf(listObj runtime.Object) (reflect.Value, error) {
	ptr, err := meta.GetItemsPtr(listObj)
	if err != nil {
		return reflect.Value{}, err
	}
	v, err := conversion.EnforcePtr(ptr)
	if err == nil && v.Kind() != reflect.Slice {
		err = fmt.Errorf("items of %T are no slice", listObj)
	}
	return v, err
}

// list is one page while it is being read.
type list struct {
	storage      *Storage
	ctx          context.Context
	opts         storage.ListOptions
	prefix, from string
	items        reflect.Value

	version uint64
	last    string // key of the last object that may match
	more    bool   // there are objects after it
	bytes   int    // of the objects that the page has
	held    int    // of the page's memory, what is counted
	unheld  int    // and what is not counted yet
	each    int    // what an object takes in the page besides what it refers to, unless that is counted already
	whole   int    // how often their bytes are counted for the answer
	count   int64  // of objects from the page's beginning on, of interest only when there is more
}

// read fills the page from the objects as they were at a version, or as they are for 0.
func (l *list) read(sn *store.Snapshot, at uint64) error {
	l.version = at
	if at == 0 {
		l.version = sn.Version()
		if err := l.storage.notOlderThan(l.opts.ResourceVersion, l.version); err != nil {
			return err
		}
	}
	past, err := sn.At(l.version, l.prefix)
	if err == nil && l.version < birth(sn, l.prefix) {
		err = store.ErrCompacted
	}
	switch {
	case errors.Is(err, store.ErrFuture):
		return storage.NewTooLargeResourceVersionError(at, sn.Version(), 0)
	case errors.Is(err, store.ErrCompacted) && l.opts.Recursive && l.opts.Predicate.Continue != "":
		return expiredPage(l.from, l.prefix)
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired(listExpired)
	case err != nil:
		return err
	}
	if l.opts.Recursive {
		err = l.readAll(past)
	} else if o, ok := past.Get(l.prefix); ok {
		err = l.add(o)
	}
	if l.items.IsNil() {
		l.items.Set(reflect.MakeSlice(l.items.Type(), 0, 0))
	}
	return err
}

func (l *list) readAll(past *store.Past) error {
	limit := int(l.opts.Predicate.Limit)
	if l.opts.Predicate.Empty() {
		n := past.Count(l.from)
		l.count = int64(n)
		if limit > 0 {
			n = min(n, limit, maxGuess)
		}
		if err := l.hold(n * l.each); err != nil {
			return err
		}
		l.each = 0
		l.items.Set(reflect.MakeSlice(l.items.Type(), 0, n))
	}
	var err error
	past.Range(l.from, wanted(l.ctx, l.opts.Predicate.Label), func(o store.Object) bool {
		if limit > 0 && (l.items.Len() >= limit || l.bytes >= maxPageBytes) {
			l.more = true
			return false
		}
		l.last = o.Key
		if l.ctx.Err() != nil {
			err = storage.NewTimeoutError(o.Key, "request did not complete within requested timeout")
		} else {
			err = l.add(o)
		}
		return err == nil
	})
	return err
}

// add decodes an object and keeps it when it matches. The predicate's error says that the object has no attributes to
// match, which is no reason to fail the others.
func (l *list) add(o store.Object) error {
	item := reflect.New(l.items.Type().Elem())
	obj, err := l.storage.decodeNew(o.Key, o.Value, o.Version, item.Interface().(runtime.Object))
	if err != nil {
		return err
	}
	if matched, err := l.opts.Predicate.Matches(obj); err == nil && matched {
		l.items.Set(reflect.Append(l.items, reflect.ValueOf(obj).Elem()))
		size := sizeOf(obj, len(o.Value))
		l.bytes += size
		if l.unheld += l.each + size*(1+l.whole); l.unheld >= smallObject {
			err := l.hold(l.unheld)
			l.unheld = 0
			return err
		}
	}
	return nil
}

// hold counts n more bytes. What a request may hold for a single list has an end, though not that of what a user may hold.
func (l *list) hold(n int) error {
	if l.held += n; l.held > maxListBytes && l.items.Len() > 1 && isRequest(l.ctx) {
		return tooLargeList(l.ctx)
	}
	return Hold(l.ctx, n)
}
