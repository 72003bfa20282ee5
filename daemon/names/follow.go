package names

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// follow keeps the index up to date with the store, until ctx ends or the store is closed. Pods are read only once
// there is a Service that selects some: most Jobs have none, and are spared the work.
func (x *index) follow(ctx context.Context, s *store.Store, logger *slog.Logger) {
	var (
		once  sync.Once
		group sync.WaitGroup
	)
	defer group.Wait()
	warn := func(key string, err error) {
		logger.Warn("cannot decode an object that names are made from", "object", key, "error", err)
	}
	group.Go(func() { x.followSlices(ctx, s, warn) })
	group.Go(func() { x.followNamespaces(ctx, s) })
	followPrefix(ctx, s, "services/", follower{drop: x.dropServices, shown: x.allServicesShown, show: func(o store.Object, gone bool) {
		namespace, name := split(o.Key)
		if gone {
			x.dropService(namespace, name)
			return
		}
		obj := &corev1.Service{}
		if err := scheme.Decode(o.Value, obj); err != nil {
			warn(o.Key, err)
			return
		}
		x.setService(obj)
		if len(obj.Spec.Selector) > 0 {
			once.Do(func() { group.Go(func() { x.followPods(ctx, s, warn) }) })
		}
	}})
}

func (x *index) followPods(ctx context.Context, s *store.Store, warn func(key string, err error)) {
	followPrefix(ctx, s, "pods/", follower{drop: x.dropPods, shown: x.allPodsShown, show: func(o store.Object, gone bool) {
		namespace, name := split(o.Key)
		if gone {
			x.deletePod(namespace, name)
			return
		}
		obj := &corev1.Pod{}
		if err := scheme.Decode(o.Value, obj); err != nil {
			warn(o.Key, err)
			return
		}
		x.setPod(obj)
	}})
}

func (x *index) followSlices(ctx context.Context, s *store.Store, warn func(key string, err error)) {
	followPrefix(ctx, s, store.Key(endpointSlices, "", ""), follower{drop: x.dropSlices, shown: x.allSlicesShown, show: func(o store.Object, gone bool) {
		obj := &discoveryv1.EndpointSlice{}
		if err := scheme.Decode(o.Value, obj); err != nil {
			warn(o.Key, err)
			return
		}
		if gone {
			x.dropSlice(obj)
		} else {
			x.setSlice(obj)
		}
	}})
}

func (x *index) followNamespaces(ctx context.Context, s *store.Store) {
	const prefix = "namespaces/"
	followPrefix(ctx, s, prefix, follower{drop: x.dropNamespaces, show: func(o store.Object, gone bool) {
		if name := strings.TrimPrefix(o.Key, prefix); gone {
			x.dropNamespace(name)
		} else {
			x.setNamespace(name)
		}
	}})
}

// split returns the namespace and the name in a key of the store.
func split(key string) (namespace, name string) {
	_, rest, _ := strings.Cut(key, "/")
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

// batch is how many changes are taken at a time.
const batch = 256

// follower is called with every object below a prefix, and then with each change. If changes were missed, everything is
// dropped and read again.
type follower struct {
	drop  func()
	show  func(o store.Object, gone bool)
	shown func() // called once all objects were shown; may be nil
}

// followPrefix calls f with the objects below a prefix, until ctx ends or the store is closed.
func followPrefix(ctx context.Context, s *store.Store, prefix string, f follower) {
	for {
		var at uint64
		if err := s.View(func(snapshot *store.Snapshot) error {
			at = snapshot.Version()
			snapshot.Range(prefix, "", func(o store.Object) bool {
				f.show(o, false)
				return true
			})
			return nil
		}); err != nil {
			return
		}
		if f.shown != nil {
			f.shown()
		}
		for cursor := s.Cursor(at, prefix); ; {
			changes, _, err := cursor.Next(ctx, batch)
			if errors.Is(err, store.ErrCompacted) {
				break
			} else if err != nil {
				return
			}
			for _, c := range changes {
				f.show(c.Object, c.Deleted)
			}
		}
		f.drop()
	}
}
