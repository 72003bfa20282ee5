package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// windows is the controller of the windows of namespaces (core.WindowAnnotation): its Jobs have them that have none of their own.
// Which are open is decided with each Job (job.Decide).
type windows struct {
	loop.Base
	jobs *jobRecords
}

var namespaceAnnotations = scheme.FieldsOf[corev1.Namespace]("metadata.name", "metadata.annotations")

// Rebuild implements loop.Controller: it comes before the Jobs are read.
func (w *windows) Rebuild(s *store.Snapshot, _ time.Time) (err error) {
	s.Range(objects.Namespaces+"/", "", func(o store.Object) bool {
		ns := &corev1.Namespace{}
		if err = scheme.DecodePart(o.Value, namespaceAnnotations, ns); err == nil {
			w.set(ns)
		}
		return err == nil
	})
	return err
}

// set takes in the window of a namespace, and reports whether that has changed.
func (w *windows) set(ns *corev1.Namespace) bool {
	was, is := w.jobs.windows[ns.Name], core.WindowOf(ns.Annotations)
	switch {
	case is == nil:
		delete(w.jobs.windows, ns.Name)
		return was != nil
	case was != nil && was.Text == is.Text:
		return false
	}
	w.jobs.windows[ns.Name] = is
	return true
}

// Fold implements loop.Controller.
func (w *windows) Fold(p *loop.Pass, c loop.Change) error {
	if c.Resource != objects.Namespaces {
		return nil
	}
	ns := &corev1.Namespace{}
	if err := objects.Decode(c.Object, ns); err != nil {
		return err
	}
	if c.Deleted {
		ns.Annotations = nil
	}
	if !w.set(ns) {
		return nil
	}
	p.Worked(len(w.jobs.known))
	for uid, rec := range w.jobs.known {
		if in, _ := objects.NameOf(rec.key); in == ns.Name {
			rec.Inherit(w.jobs.windows[ns.Name])
			w.jobs.enqueue(uid)
		}
	}
	return nil
}
