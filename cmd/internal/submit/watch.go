package submit

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// watched are objects of one kind that a server can list and watch.
type watched[T metav1.Object] struct {
	list  func(context.Context, metav1.ListOptions) (items []T, version string, err error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// see is called with each state of each object.
	see func(o T, deleted bool)
	// connected is called with nil when the server answers, and with the error when it does not.
	connected func(error)
}

// run watches from a version on, or from a list if that is empty. It survives breaks of the connection, and a version that
// the server has forgotten. It returns when ctx ends, or with the error of a server that refuses it.
func (w *watched[T]) run(ctx context.Context, version string, known ...T) error {
	seen := map[types.UID]T{}
	for _, o := range known {
		seen[o.GetUID()] = o
	}
	for backoff := reconnect(); ctx.Err() == nil; {
		err := w.once(ctx, &version, seen)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			backoff = reconnect()
			continue
		case apierrors.IsGone(err), apierrors.IsResourceExpired(err):
			version = ""
			continue
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		default:
			w.connected(err)
		}
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// once lists if there is no version, and then watches until the server ends it.
func (w *watched[T]) once(ctx context.Context, version *string, seen map[types.UID]T) error {
	if *version == "" {
		items, at, err := w.list(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		w.connected(nil)
		gone := seen
		for _, o := range items {
			delete(gone, o.GetUID())
		}
		for _, o := range gone {
			w.see(o, true)
		}
		clear(seen)
		for _, o := range items {
			seen[o.GetUID()] = o
			w.see(o, false)
		}
		*version = at
	}
	stream, err := w.watch(ctx, metav1.ListOptions{ResourceVersion: *version, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer stream.Stop()
	w.connected(nil)
	for e := range stream.ResultChan() {
		switch e.Type {
		case watch.Error:
			return apierrors.FromObject(e.Object)
		case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
			o, ok := e.Object.(T)
			if !ok {
				continue
			}
			*version = o.GetResourceVersion()
			switch e.Type {
			case watch.Bookmark:
			case watch.Deleted:
				delete(seen, o.GetUID())
				w.see(o, true)
			default:
				seen[o.GetUID()] = o
				w.see(o, false)
			}
		}
	}
	return nil
}
