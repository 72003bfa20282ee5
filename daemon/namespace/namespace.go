// Package namespace looks after namespaces: it creates what every namespace has in new ones, and empties those that are
// being deleted.
//
// Changes of namespaces and of their contents come in. What goes out are the objects that it writes and deletes in the
// loop's passes.
package namespace

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// get returns the object of a namespace.
func get(p *loop.Pass, name string) (ns *corev1.Namespace, ok bool, err error) {
	ns = &corev1.Namespace{}
	ok, err = objects.Read(p, store.Key(objects.Namespaces, "", name), ns)
	return ns, ok, err
}

// ForCreation returns a namespace in which something is to be created, or why nothing can be.
func ForCreation(p *loop.Pass, name string) (ns *corev1.Namespace, refusal, err error) {
	ns, ok, err := get(p, name)
	switch {
	case err != nil:
		return nil, nil, err
	case !ok:
		return nil, fmt.Errorf("namespaces %q not found", name), nil
	}
	if ns.DeletionTimestamp != nil {
		return nil, fmt.Errorf("pods is forbidden: unable to create new content in namespace %s because it is being terminated", name), nil
	}
	return ns, nil, nil
}
