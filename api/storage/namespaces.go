package storage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// Namespace reads a namespace, if there is one of that name.
func Namespace(s *store.Store, name string) (ns *corev1.Namespace, found bool, err error) {
	ns = &corev1.Namespace{}
	err = s.View(func(snapshot *store.Snapshot) error {
		object, ok := snapshot.Get(store.Key("namespaces", "", name))
		if found = ok; !ok {
			return nil
		}
		return scheme.Decode(object.Value, ns)
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the namespace %s: %w", name, err)
	}
	return ns, found, nil
}

// Pods returns all pods of a namespace. It fails when ctx ends first.
func Pods(ctx context.Context, s *store.Store, namespace string) (pods []*corev1.Pod, err error) {
	viewed := s.View(func(snapshot *store.Snapshot) error {
		snapshot.Range(store.Key("pods", namespace, ""), "", func(o store.Object) bool {
			pod := &corev1.Pod{}
			if err = ctx.Err(); err == nil {
				err = scheme.Decode(o.Value, pod)
			}
			pods = append(pods, pod)
			return err == nil
		})
		return err
	})
	return pods, viewed
}
