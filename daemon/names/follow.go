package names

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/follow"
	"github.com/jobd/jobd/daemon/objects"
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
	show := func(o store.Object, gone bool) {
		namespace, name := objects.NameOf(o.Key)
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
	}
	follow.Prefix(ctx, s, "services/", follow.Follower{Show: show, Shown: x.allServicesShown, Drop: x.dropServices})
}

func (x *index) followPods(ctx context.Context, s *store.Store, warn func(key string, err error)) {
	show := func(o store.Object, gone bool) {
		namespace, name := objects.NameOf(o.Key)
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
	}
	follow.Prefix(ctx, s, "pods/", follow.Follower{Show: show, Shown: x.allPodsShown, Drop: x.dropPods})
}

func (x *index) followSlices(ctx context.Context, s *store.Store, warn func(key string, err error)) {
	show := func(o store.Object, gone bool) {
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
	}
	follow.Prefix(ctx, s, store.Key(endpointSlices, "", ""), follow.Follower{Show: show, Shown: x.allSlicesShown, Drop: x.dropSlices})
}

func (x *index) followNamespaces(ctx context.Context, s *store.Store) {
	const prefix = "namespaces/"
	show := func(o store.Object, gone bool) {
		if name := strings.TrimPrefix(o.Key, prefix); gone {
			x.dropNamespace(name)
		} else {
			x.setNamespace(name)
		}
	}
	follow.Prefix(ctx, s, prefix, follow.Follower{Show: show, Shown: func() {}, Drop: x.dropNamespaces})
}
