// Package namespace looks after namespaces: it creates what every namespace has in new ones, and empties those that are
// being deleted.
//
// Changes of namespaces and of their contents come in. What goes out are the objects that it writes and deletes in the
// loop's passes.
package namespace

import (
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

// TakesMore reports whether there is a namespace in which something can be created.
func TakesMore(p *loop.Pass, name string) (bool, error) {
	ns, ok, err := get(p, name)
	return ok && ns.DeletionTimestamp == nil, err
}
