package forward

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/jobd/jobd/api/clusters"
)

// stores are the objects of a kind by namespaces that are watched: one for all, or one each.
type stores map[string]cache.Store

// of returns the store of a namespace; nil if that is not watched.
func (s stores) of(namespace string) cache.Store {
	if store := s[namespace]; store != nil {
		return store
	}
	return s[metav1.NamespaceAll]
}

func (s stores) watches(namespace string) bool { return s.of(namespace) != nil }

// get returns an object; nil if it is not known.
func (s stores) get(namespace, name string) any {
	store := s.of(namespace)
	if store == nil {
		return nil
	}
	o, _, _ := store.GetByKey(namespace + "/" + name) // of a store in memory, which does not fail
	return o
}

func (s stores) list() (all []any) {
	for _, store := range s {
		all = append(all, store.List()...)
	}
	return all
}

// watch begins to watch both servers.
func (f *Forwarder) watch(begin func(func(context.Context))) {
	here, there := []string{metav1.NamespaceAll}, []string{metav1.NamespaceAll}
	if f.Namespaces != nil {
		here, there = nil, nil
		for from, to := range f.Namespaces {
			here, there = append(here, from), append(there, to)
		}
	}
	f.localJobs, f.remoteJobs, f.remotePods = stores{}, stores{}, stores{}
	ours := func(o *metav1.ListOptions) { o.LabelSelector = clusters.OriginLabel + "=" + string(f.origin.Jobd) }
	everything := func(*metav1.ListOptions) {}
	for _, ns := range here {
		f.localJobs[ns] = f.follow(begin, f.local.BatchV1().RESTClient(), "jobs", ns, everything, &batchv1.Job{}, f.onlyForwarded, func(o runtime.Object) {
			if j := o.(*batchv1.Job); f.isForwarded(j) {
				f.queue.Add(key{ofJob, j.Namespace, j.Name})
			}
		})
	}
	for _, ns := range there {
		f.remoteJobs[ns] = f.follow(begin, f.remote.BatchV1().RESTClient(), "jobs", ns, ours, &batchv1.Job{}, lighter, func(o runtime.Object) {
			j := o.(*batchv1.Job)
			for _, from := range f.from(j.Namespace) {
				f.queue.Add(key{ofJob, from, j.Name})
			}
		})
		f.remotePods[ns] = f.follow(begin, f.remote.CoreV1().RESTClient(), "pods", ns, ours, &corev1.Pod{}, lighter, func(o runtime.Object) {
			p := o.(*corev1.Pod)
			f.queue.Add(key{ofPod, p.Namespace, p.Name})
		})
		for _, kind := range []string{"Job", "Pod"} {
			f.followEvents(begin, ns, fields.OneTermEqualSelector("involvedObject.kind", kind).String())
		}
	}
}

// follow watches objects of a kind, keeps them, and calls changed with each that has come, changed or gone.
func (f *Forwarder) follow(
	begin func(func(context.Context)), client rest.Interface, resource, namespace string, options func(*metav1.ListOptions), kind runtime.Object,
	transform cache.TransformFunc, changed func(runtime.Object),
) cache.Store {
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(client, resource, namespace, options),
		ObjectType:    kind, Transform: transform,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { changed(o.(runtime.Object)) },
			UpdateFunc: func(_, o any) { changed(o.(runtime.Object)) },
			DeleteFunc: func(o any) {
				if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				changed(o.(runtime.Object))
			},
		},
	})
	begin(func(ctx context.Context) { controller.RunWithContext(ctx) })
	return store
}

// isForwarded reports whether a Job is one of the cluster's.
func (f *Forwarder) isForwarded(j *batchv1.Job) bool { return clusters.Of(j) == f.Cluster }

// localJob returns a Job here that is forwarded; nil if there is none.
func (f *Forwarder) localJob(namespace, name string) *batchv1.Job {
	if j, ok := f.localJobs.get(namespace, name).(*batchv1.Job); ok && f.isForwarded(j) {
		return j
	}
	return nil
}

// all has all Jobs looked at.
func (f *Forwarder) all() {
	for _, o := range f.localJobs.list() {
		if j := o.(*batchv1.Job); f.isForwarded(j) {
			k := key{ofJob, j.Namespace, j.Name}
			f.queue.Forget(k)
			f.queue.Add(k)
		}
	}
}

// onlyForwarded keeps of other Jobs no more than that they are there.
func (f *Forwarder) onlyForwarded(o any) (any, error) {
	j, ok := o.(*batchv1.Job)
	if !ok {
		return o, nil
	}
	if f.isForwarded(j) {
		return lighter(j)
	}
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion}}, nil
}

// lighter leaves out what nobody here reads.
func lighter(o any) (any, error) {
	switch o := o.(type) {
	case *batchv1.Job:
		o.ManagedFields = nil
	case *corev1.Pod:
		o.ManagedFields, o.Annotations = nil, keptAnnotations(o)
		o.Spec = corev1.PodSpec{NodeName: o.Spec.NodeName, RestartPolicy: o.Spec.RestartPolicy}
	}
	return o, nil
}

func keptAnnotations(p *corev1.Pod) map[string]string {
	if index, ok := p.Annotations[batchv1.JobCompletionIndexAnnotation]; ok {
		return map[string]string{batchv1.JobCompletionIndexAnnotation: index}
	}
	return nil
}

// arrival is an event of the cluster, and when it came here, by the clock here: that of the cluster may show another time.
type arrival struct {
	*corev1.Event
	at time.Time
}

// eventSink hands events on, and keeps none.
type eventSink struct {
	to  chan<- arrival
	now func() time.Time
}

var _ cache.ReflectorStore = eventSink{}

func (s eventSink) Add(o any) error {
	e, ok := o.(*corev1.Event)
	if !ok {
		return fmt.Errorf("an event is a %T", o)
	}
	s.hand(arrival{e, s.now()})
	return nil
}

func (s eventSink) hand(e arrival) {
	select {
	case s.to <- e:
	default: // the line is full: what comes after it matters as much
	}
}

func (s eventSink) Update(o any) error { return s.Add(o) }
func (s eventSink) Delete(any) error   { return nil }
func (s eventSink) Resync() error      { return nil }

func (s eventSink) Replace(list []any, _ string) error {
	for _, o := range slices.Backward(list) { // those that there is no place for are the oldest
		if err := s.Add(o); err != nil {
			return err
		}
	}
	return nil
}

func (f *Forwarder) followEvents(begin func(func(context.Context)), namespace, selector string) {
	lw := cache.NewFilteredListWatchFromClient(f.remote.CoreV1().RESTClient(), "events", namespace, func(o *metav1.ListOptions) { o.FieldSelector = selector })
	r := cache.NewReflectorWithOptions(lw, &corev1.Event{}, eventSink{f.events, f.now}, cache.ReflectorOptions{})
	begin(func(ctx context.Context) { r.RunWithContext(ctx) })
}
