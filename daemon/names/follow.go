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

// Follow keeps the index as the store is, until ctx ends or the store is closed. Pods are read only once there is a
// Service that selects some: most Jobs have none, and go without the work.
func (x *Index) Follow(ctx context.Context, s *store.Store, logger *slog.Logger) {
	var (
		once  sync.Once
		group sync.WaitGroup
	)
	defer group.Wait()
	warn := func(key string, err error) {
		logger.Warn("names: an object cannot be read", "object", key, "error", err)
	}
	group.Go(func() { x.followSlices(ctx, s, warn) })
	follow(ctx, s, "services/", follower{drop: x.dropServices, show: func(o store.Object, gone bool) {
		namespace, name := split(o.Key)
		if gone {
			x.DropService(namespace, name)
			return
		}
		obj := &corev1.Service{}
		if err := scheme.Decode(o.Value, obj); err != nil {
			warn(o.Key, err)
			return
		}
		x.SetService(obj)
		if len(obj.Spec.Selector) > 0 {
			once.Do(func() { group.Go(func() { x.followPods(ctx, s, warn) }) })
		}
	}})
}

func (x *Index) followPods(ctx context.Context, s *store.Store, warn func(key string, err error)) {
	follow(ctx, s, "pods/", follower{drop: x.dropPods, shown: x.allPodsShown, show: func(o store.Object, gone bool) {
		namespace, name := split(o.Key)
		if gone {
			x.DropPod(namespace, name)
			return
		}
		obj := &corev1.Pod{}
		if err := scheme.Decode(o.Value, obj); err != nil {
			warn(o.Key, err)
			return
		}
		x.SetPod(obj)
	}})
}

func (x *Index) followSlices(ctx context.Context, s *store.Store, warn func(key string, err error)) {
	follow(ctx, s, store.Key(endpointSlices, "", ""), follower{drop: x.dropSlices, show: func(o store.Object, gone bool) {
		obj := &discoveryv1.EndpointSlice{}
		if err := scheme.Decode(o.Value, obj); err != nil {
			warn(o.Key, err)
			return
		}
		if gone {
			x.DropSlice(obj)
		} else {
			x.SetSlice(obj)
		}
	}})
}

// split gives the namespace and the name in a key of the store.
func split(key string) (namespace, name string) {
	_, rest, _ := strings.Cut(key, "/")
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

// batch is how many changes are taken at a time.
const batch = 256

// follower is shown every object below a prefix, and then each of its changes. Where changes have been missed, everything is
// dropped and shown anew.
type follower struct {
	drop  func()
	show  func(o store.Object, gone bool)
	shown func() // when all objects were; may be nil
}

func follow(ctx context.Context, s *store.Store, prefix string, f follower) {
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
