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

// Refusal returns why a namespace takes no new pods; nil if it does.
func Refusal(p *loop.Pass, name string) (refusal, err error) {
	ns, ok, err := get(p, name)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return fmt.Errorf("namespaces %q not found", name), nil
	}
	if ns.DeletionTimestamp != nil {
		return fmt.Errorf("pods is forbidden: unable to create new content in namespace %s because it is being terminated", name), nil
	}
	return nil, nil
}
