package answers

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/dependents"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// podsOf returns the pods of a Job that have not succeeded, as many as are explained.
func (q *question) podsOf(s *store.Snapshot, j *batchv1.Job) (pods []*corev1.Pod, err error) {
	if !q.may("pods", j.Namespace) {
		return nil, nil
	}
	s.Owned(string(j.UID), store.Key(objects.Pods, j.Namespace, ""), "", func(key string) bool {
		o, ok := s.Get(key)
		if !ok {
			return true
		}
		part := &corev1.Pod{}
		if err = scheme.DecodePart(o.Value, objects.PodEnd, part); err != nil {
			return false
		}
		if part.Status.Phase == corev1.PodSucceeded {
			return true
		}
		p := &corev1.Pod{}
		if err = objects.Decode(o, p); err == nil && objects.ControllingJob(p) == j.UID {
			pods = append(pods, p)
		}
		return err == nil && len(pods) < explainedPods
	})
	return pods, err
}

// events adds the events about an object, and about pods of it.
func (q *question) events(s *store.Snapshot, w *causes.World, of objects.Object, pods []*corev1.Pod) (err error) {
	wanted := map[types.UID]bool{of.GetUID(): true}
	for _, p := range pods {
		wanted[p.UID] = true
	}
	if err = q.eventsAbout(s, w, of, func(e *corev1.Event) bool { return wanted[e.InvolvedObject.UID] }); err != nil {
		return err
	}
	j, is := of.(*batchv1.Job)
	if !is || !causes.LeavesNoPods(j) || !q.may("pods", j.Namespace) {
		return nil
	}
	gone := causes.PodsOf(w.Events)
	return q.eventsAbout(s, w, of, func(e *corev1.Event) bool {
		return e.InvolvedObject.Kind == "Pod" && gone.Has(e.InvolvedObject.Name) && !wanted[e.InvolvedObject.UID]
	})
}

var eventSubject = scheme.FieldsOf[corev1.Event]("involvedObject.uid", "involvedObject.kind", "involvedObject.name")

// eventsAbout adds the events about an object, or about pods of it, that are wanted.
func (q *question) eventsAbout(s *store.Snapshot, w *causes.World, of objects.Object, wanted func(*corev1.Event) bool) (err error) {
	// Events are named after their objects, and so are pods after their Jobs.
	s.Range(store.Key(objects.Events, of.GetNamespace(), of.GetName()), "", func(o store.Object) bool {
		part := &corev1.Event{} // a Job of 100,000 pods has several events of each
		if err = scheme.DecodePart(o.Value, eventSubject, part); err != nil || !wanted(part) {
			return err == nil
		}
		e := &corev1.Event{}
		if err = objects.Decode(o, e); err == nil {
			w.Events = append(w.Events, *e)
		}
		return err == nil
	})
	return err
}

// dependents adds those for which the deletion of an object in the foreground waits.
func (q *question) dependents(s *store.Snapshot, w *causes.World, of objects.Object) (err error) {
	if !dependents.Awaits(of) {
		return nil
	}
	seen := 0
	s.Owned(string(of.GetUID()), "", "", func(key string) bool {
		k := objects.Served()[objects.ResourceOf(key)]
		if k == nil || storage.Hidden(key) {
			return true
		}
		obj, ok := k.New().(objects.Object)
		if !ok {
			return true
		}
		var there bool
		if there, err = objects.Read(s, key, obj); err != nil || !there || !storage.BlocksOwner(obj, of) {
			return err == nil
		}
		if q.may(objects.ResourceOf(key), obj.GetNamespace()) {
			w.Dependents.Add(dependents.Dependent{Object: obj, Kind: k.Name, Stranger: gc.Stranger(obj)})
		} else {
			w.Dependents.Others++
		}
		seen++
		return seen < explainedPods
	})
	return err
}
