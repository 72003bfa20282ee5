package control

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
)

// windows is the controller of the windows of namespaces (core.WindowAnnotation): its Jobs have them that have none of their own.
// Which are open is decided with each Job (job.Decide).
type windows struct {
	loop.Base
	jobs *jobRecords
}

// set takes in the window of a namespace, and reports whether that has changed.
func (w *windows) set(namespace string, is *core.Window) bool {
	was := w.jobs.windows[namespace]
	switch {
	case is == nil:
		delete(w.jobs.windows, namespace)
		return was != nil
	case was != nil && was.Text == is.Text:
		return false
	}
	w.jobs.windows[namespace] = is
	return true
}

// NamespaceKnown implements loop.NamespaceFollower.
func (w *windows) NamespaceKnown(ns *corev1.Namespace) { w.set(ns.Name, core.WindowOf(ns.Annotations)) }

// NamespaceChanged implements loop.NamespaceFollower.
func (w *windows) NamespaceChanged(p *loop.Pass, ns *corev1.Namespace) error {
	w.change(p, ns.Name, core.WindowOf(ns.Annotations))
	return nil
}

// NamespaceGone implements loop.NamespaceFollower.
func (w *windows) NamespaceGone(p *loop.Pass, name string) error {
	w.change(p, name, nil)
	return nil
}

func (w *windows) change(p *loop.Pass, namespace string, is *core.Window) {
	if !w.set(namespace, is) {
		return
	}
	p.Worked(len(w.jobs.known))
	for uid, rec := range w.jobs.known {
		if in, _ := objects.NameOf(rec.key); in == namespace {
			rec.Inherit(is)
			w.jobs.enqueue(uid)
		}
	}
}
