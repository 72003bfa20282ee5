package clients

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// watcher follows the objects of a history from a list on, and goes on after each interruption where it stood.
type watcher struct {
	history  *history
	resource int

	mu      sync.Mutex
	since   uint64 // version of its list
	events  []event
	current map[string]uint64
}

type event struct {
	name string
	version
}

func (w *watcher) follow(ctx context.Context, c dynamic.Interface) {
	kind := resources[w.resource]
	objects := c.Resource(kind.GroupVersionResource).Namespace("default")
	t := w.history.t
	from := ""
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		options := w.history.options()
		if from == "" {
			list, err := objects.List(ctx, options)
			if err != nil {
				continue
			}
			from = list.GetResourceVersion()
			w.mu.Lock()
			w.since = number(t, from)
			for _, o := range list.Items {
				w.current[kind.GroupResource().String()+"/"+o.GetName()] = number(t, o.GetResourceVersion())
			}
			w.mu.Unlock()
		}
		options.ResourceVersion, options.AllowWatchBookmarks = from, true
		stream, err := objects.Watch(ctx, options)
		if err != nil {
			continue
		}
		for e := range stream.ResultChan() {
			if e.Type == watch.Error {
				if s, ok := e.Object.(*metav1.Status); ok && s.Code == http.StatusGone {
					t.Errorf("%s: a watch from version %s is refused: %s", w.history.name, from, s.Message)
					return
				}
				break
			}
			o := e.Object.(metav1.Object)
			from = o.GetResourceVersion()
			if e.Type == watch.Bookmark {
				continue
			}
			name := kind.GroupResource().String() + "/" + o.GetName()
			happened := event{name, version{number(t, from), e.Type == watch.Deleted}}
			w.mu.Lock()
			w.events = append(w.events, happened)
			w.current[name] = happened.version.version
			if happened.deleted {
				delete(w.current, name)
			}
			w.mu.Unlock()
			if !happened.deleted {
				w.history.mu.Lock()
				w.history.learn(from, name, o.GetAnnotations()["value"])
				w.history.mu.Unlock()
			}
		}
		stream.Stop()
	}
}

// sees says whether the watcher has arrived at a state.
func (w *watcher) sees(state map[string]uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	want := maps.Clone(state)
	maps.DeleteFunc(want, func(name string, _ uint64) bool { return !w.history.isOf(w.resource, name) })
	if !maps.Equal(want, w.current) {
		return fmt.Errorf("%v, it is told of %v", want, w.current)
	}
	return nil
}
