package controltest

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// Create does what the API does with a new Job, in the namespace default unless it says otherwise.
func (w *World) Create(j *batchv1.Job) {
	w.T.Helper()
	j.Namespace, j.UID, j.CreationTimestamp = cmp.Or(j.Namespace, "default"), uuid.NewUUID(), metav1.Now()
	if j.Spec.Template.Spec.Containers == nil {
		j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	}
	if j.Spec.Template.Spec.RestartPolicy == "" {
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	batch.SetJobDefaults(j)
	batch.PrepareJob(j)
	w.Put(objects.Key(objects.Jobs, j), j)
}

// Put writes an object.
func (w *World) Put(key string, obj objects.Object) {
	w.T.Helper()
	w.PutAll(map[string]objects.Object{key: obj})
}

// PutAll writes objects, by their keys, at once.
func (w *World) PutAll(all map[string]objects.Object) {
	w.T.Helper()
	w.Write(func(tx *store.Tx) error {
		for key, obj := range all {
			value, err := scheme.Encode(obj)
			if err != nil {
				return err
			}
			var owners []string
			for _, o := range obj.GetOwnerReferences() {
				owners = append(owners, string(o.UID))
			}
			o := store.Object{Key: key, UID: string(obj.GetUID()), Owners: owners, Value: value}
			if _, err = storage.Put(tx, &o); err != nil {
				return err
			}
		}
		return nil
	})
}

// Job returns a Job as it is stored once everything that is due has happened; nil if it is gone.
func (w *World) Job(name string) *batchv1.Job { return stored[batchv1.Job](w, objects.Jobs, name) }

// Pods returns all pods, the oldest first, once everything that is due has happened.
func (w *World) Pods() (all []*corev1.Pod) {
	w.T.Helper()
	synctest.Wait()
	_ = w.Store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Pods, func(_ string, p *corev1.Pod) error {
			all = append(all, p)
			return nil
		})
	})
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all
}

// Simulate returns a Job whose pods run for a while and end with these exit codes (package simulated).
func Simulate(name, duration, codes string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
	j.Spec.Template.Annotations = map[string]string{simulated.Duration: duration, simulated.ExitCode: codes}
	return j
}

// Small is a world whose node has 3 cpus.
func Small(t *testing.T) *World {
	w := New(t)
	w.Allocatable = requests.Resources{"cpu": 3000}
	w.Stop()
	w.Start()
	return w
}

func Asking(cpu string) []corev1.Container {
	return []corev1.Container{{Name: "c", Image: "busybox", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
}

// Bare makes a pod without a Job that runs for a while and requests some CPU.
func (w *World) Bare(name, cpu, duration string, change func(*corev1.Pod)) {
	w.T.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: uuid.NewUUID(), Annotations: map[string]string{simulated.Duration: duration},
	}}
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.Containers = Asking(cpu)
	if change != nil {
		change(p)
	}
	core.SetPodDefaults(p)
	core.PreparePod(p, time.Now())
	w.Put(objects.Key(objects.Pods, p), p)
	synctest.Wait()
}

func (w *World) Pod(name string) *corev1.Pod {
	for _, p := range w.Pods() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func Condition(p *corev1.Pod, t corev1.PodConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return string(c.Status) + " " + c.Reason + " " + c.Message
		}
	}
	return ""
}

// Events returns the events about an object: reason and message of each.
func (w *World) Events(name string) (said []string) {
	synctest.Wait()
	_ = w.Store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
			if e.InvolvedObject.Name == name {
				said = append(said, e.Reason+": "+e.Message)
			}
			return nil
		})
	})
	return said
}

// Running returns the pods that are on the node and have not ended.
func (w *World) Running() (names []string) {
	for _, p := range w.Pods() {
		if p.Spec.NodeName != "" && !podspec.Ended(p) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// stored returns an object of the namespace default as it is stored once everything that is due has happened; nil if it is gone.
func stored[T any, P interface {
	*T
	objects.Object
}](w *World, resource, name string) *T {
	w.T.Helper()
	synctest.Wait()
	obj := P(new(T))
	if !w.Read(store.Key(resource, "default", name), obj) {
		return nil
	}
	return obj
}

// Read reads an object as it is stored now, and reports whether it is there.
func (w *World) Read(key string, into objects.Object) (ok bool) {
	w.T.Helper()
	if err := w.Store.View(func(s *store.Snapshot) error {
		var o store.Object
		if o, ok = s.Get(key); !ok {
			return nil
		}
		return objects.Decode(o, into)
	}); err != nil {
		w.T.Fatal(err)
	}
	return ok
}

// SetClock sets the wall clock of a world forward, or back, while it is running. Time itself goes on as before.
func (w *World) SetClock(by time.Duration) {
	synctest.Wait()
	w.Clock = func() time.Time { return time.Now().Round(0).Add(by) }
	w.Inbox.Nudge() // as the follower of the clock does
	synctest.Wait()
}

// Delete does what the API does with a deletion.
func (w *World) Delete(key string, obj objects.Object) {
	w.T.Helper()
	storage.MarkDeleted(obj, time.Now(), 0)
	w.Put(key, obj)
	synctest.Wait()
}
