package jobset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"

	"github.com/jobd/jobd/api/batch"
	api "github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/jobset"
)

// namespace and setName are those of the JobSet that both sides decide on.
const namespace, setName = "n", "s"

var setKey = types.NamespacedName{Namespace: namespace, Name: setName}

// side is somebody who acts for a JobSet, and the objects that he acts on. What else happens to them is told to both sides alike.
type side interface {
	// settle lets him act until nothing more follows.
	settle(t *testing.T)
	// changeSet and changeJob change the JobSet and one of its Jobs, as a client or the controller of Jobs does.
	changeSet(t *testing.T, change func(*jobsetv1.JobSet))
	changeJob(t *testing.T, name string, change func(*batchv1.Job))
	// deleteJob has a Job deleted after its pods. removeJob takes away one, which is gone then.
	deleteJob(t *testing.T, name string)
	removeJob(t *testing.T, name string)
	removeServices(t *testing.T)
	// objects are those that are there.
	objects(t *testing.T) *objects
	// said are the events since it was called before.
	said() []string
}

// objects are all of one side.
type objects struct {
	Set      *jobsetv1.JobSet
	Jobs     map[string]*batchv1.Job
	Services map[string]*corev1.Service
	Claims   map[string]*corev1.PersistentVolumeClaim
}

// server is what an API server does to new objects. Those that are made for the second time have another UID.
type server map[string]int

func (s server) made(o client.Object) {
	name := fmt.Sprintf("%T %s", o, o.GetName())
	s[name]++
	o.SetUID(types.UID(fmt.Sprintf("%s %d", name, s[name])))
	if j, ok := o.(*batchv1.Job); ok {
		batch.SetJobDefaults(j)
	}
}

// deleted marks an object that goes after what belongs to it, and reports whether that is new.
func deleted(o client.Object) bool {
	if o.GetDeletionTimestamp() != nil {
		return false
	}
	o.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	return true
}

// older makes what a JobSet says of itself older, instead of waiting.
func older(js *jobsetv1.JobSet, by time.Duration) {
	for i := range js.Status.Conditions {
		c := &js.Status.Conditions[i]
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(-by))
	}
}

// ours decides as jobd does. What it lacks of package jobsets are the doors, quotas and retries.
type ours struct {
	server
	o      objects
	record *jobset.Record
	events []string
}

func newOurs(js *jobsetv1.JobSet) *ours {
	o := &ours{server: server{}, o: objects{
		Set: js.DeepCopy(), Jobs: map[string]*batchv1.Job{}, Services: map[string]*corev1.Service{}, Claims: map[string]*corev1.PersistentVolumeClaim{},
	}}
	o.record = jobset.NewRecord(o.o.Set)
	return o
}

func (o *ours) settle(t *testing.T) {
	t.Helper()
	for range 1000 {
		d := jobset.Decide(o.o.Set, o.record, time.Now(), 7)
		o.carryOut(d)
		if !d.More && !d.Changed && len(d.Delete)+len(d.Create)+len(d.Suspend)+len(d.Resume) == 0 {
			return
		}
	}
	t.Fatal("our decisions have no end")
}

func (o *ours) carryOut(d jobset.Decision) {
	js := o.o.Set
	for _, j := range d.Delete {
		o.mark(j.Name)
	}
	if name := api.Subdomain(js); d.Service && o.o.Services[name] == nil {
		o.o.Services[name] = api.NewService(js)
		o.made(o.o.Services[name])
	}
	for i := range js.Spec.VolumeClaimPolicies {
		policy := &js.Spec.VolumeClaimPolicies[i]
		for k := range policy.Templates {
			if claim := api.NewClaim(js, policy, &policy.Templates[k]); d.Claims && o.o.Claims[claim.Name] == nil {
				o.o.Claims[claim.Name] = claim
				o.made(claim)
			}
		}
	}
	for _, n := range d.Create {
		j := api.NewJob(js, &js.Spec.ReplicatedJobs[n.Group], n.Index)
		o.made(j)
		o.o.Jobs[j.Name] = j
		o.record.SetJob(j)
	}
	for _, ref := range d.Suspend {
		jobset.Suspend(o.o.Jobs[ref.Name])
		o.record.SetJob(o.o.Jobs[ref.Name])
	}
	for _, ref := range d.Resume {
		jobset.Resume(o.o.Jobs[ref.Name], api.Find(js, ref.Group))
		o.record.SetJob(o.o.Jobs[ref.Name])
	}
	for _, e := range d.Events {
		o.events = append(o.events, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
	}
	if d.Changed {
		js.Status = d.Status
	}
	if d.Expired && deleted(js) {
		js.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
}

func (o *ours) mark(name string) {
	if j := o.o.Jobs[name]; deleted(j) {
		j.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		o.record.SetJob(j)
	}
}

func (o *ours) changeSet(_ *testing.T, change func(*jobsetv1.JobSet)) { change(o.o.Set) }

func (o *ours) changeJob(_ *testing.T, name string, change func(*batchv1.Job)) {
	change(o.o.Jobs[name])
	o.record.SetJob(o.o.Jobs[name])
}

func (o *ours) deleteJob(_ *testing.T, name string) { o.mark(name) }

func (o *ours) removeJob(_ *testing.T, name string) {
	o.record.DropJob(o.o.Jobs[name].UID)
	delete(o.o.Jobs, name)
}

func (o *ours) removeServices(*testing.T) { clear(o.o.Services) }

func (o *ours) objects(*testing.T) *objects {
	out := &objects{Set: o.o.Set.DeepCopy(), Jobs: map[string]*batchv1.Job{}, Services: o.o.Services, Claims: o.o.Claims}
	for name, j := range o.o.Jobs {
		out.Jobs[name] = j.DeepCopy()
	}
	return out
}

func (o *ours) said() []string {
	out := o.events
	o.events = nil
	return out
}

// theirs is upstream's controller, with a client whose objects are in memory.
type theirs struct {
	server
	client.WithWatch
	reconciler *controllers.JobSetReconciler
	mu         sync.Mutex
	writes     int
	events     []string
}

var upstreamScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := jobsetv1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

// indexes hands upstream's indexes to the client in memory.
type indexes struct{ *fake.ClientBuilder }

func (i indexes) IndexField(_ context.Context, o client.Object, field string, of client.IndexerFunc) error {
	i.WithIndex(o, field, of)
	return nil
}

func newTheirs(t *testing.T, js *jobsetv1.JobSet) *theirs {
	t.Helper()
	h := &theirs{server: server{}}
	b := fake.NewClientBuilder().WithScheme(upstreamScheme).
		WithObjectTracker(clienttesting.NewObjectTracker(upstreamScheme, serializer.NewCodecFactory(upstreamScheme).UniversalDecoder())).
		WithStatusSubresource(&jobsetv1.JobSet{}, &batchv1.Job{}).WithObjects(js.DeepCopy())
	if err := controllers.SetupJobSetIndexes(t.Context(), indexes{b}); err != nil {
		t.Fatal(err)
	}
	h.WithWatch = b.WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.CreateOption) error {
			h.mu.Lock() // it creates and deletes Jobs by several goroutines
			defer h.mu.Unlock()
			if there := o.DeepCopyObject().(client.Object); w.Get(ctx, client.ObjectKeyFromObject(o), there) != nil {
				h.made(o)
				h.writes++
			}
			return w.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if err := w.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if !deleted(o) {
				return nil
			}
			h.writes++
			if err := w.Update(ctx, o); err != nil {
				return err
			}
			return w.Delete(ctx, o, options...)
		},
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			h.writes++
			return w.Update(ctx, o, options...)
		},
		SubResourceUpdate: func(ctx context.Context, w client.Client, name string, o client.Object, options ...client.SubResourceUpdateOption) error {
			h.writes++
			return w.SubResource(name).Update(ctx, o, options...)
		},
	}).Build()
	h.reconciler = controllers.NewJobSetReconciler(h, upstreamScheme, h)
	return h
}

// Eventf implements events.EventRecorder.
func (h *theirs) Eventf(_, _ runtime.Object, kind, reason, _, note string, _ ...any) {
	h.events = append(h.events, fmt.Sprintf("%s %s: %s", kind, reason, note))
}

func (h *theirs) settle(t *testing.T) {
	t.Helper()
	for range 1000 {
		h.writes = 0
		if _, err := h.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: setKey}); err != nil {
			t.Fatalf("upstream's controller: %v", err)
		}
		if h.writes == 0 {
			return
		}
	}
	t.Fatal("upstream's decisions have no end")
}

// set reads the JobSet.
func (h *theirs) set(t *testing.T) *jobsetv1.JobSet {
	t.Helper()
	js := &jobsetv1.JobSet{}
	if err := h.Get(t.Context(), setKey, js); err != nil {
		t.Fatal(err)
	}
	return js
}

func (h *theirs) job(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{}
	if err := h.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, j); err != nil {
		t.Fatal(err)
	}
	return j
}

// write stores an object whole, which takes a request for its status beside that for the rest.
func (h *theirs) write(t *testing.T, o client.Object) {
	t.Helper()
	whole := o.DeepCopyObject().(client.Object)
	if err := h.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	whole.SetResourceVersion(o.GetResourceVersion())
	if err := h.Status().Update(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
}

func (h *theirs) changeSet(t *testing.T, change func(*jobsetv1.JobSet)) {
	t.Helper()
	js := h.set(t)
	change(js)
	h.write(t, js)
}

func (h *theirs) changeJob(t *testing.T, name string, change func(*batchv1.Job)) {
	t.Helper()
	j := h.job(t, name)
	change(j)
	h.write(t, j)
}

func (h *theirs) deleteJob(t *testing.T, name string) {
	t.Helper()
	if err := h.Delete(t.Context(), h.job(t, name)); err != nil {
		t.Fatal(err)
	}
}

func (h *theirs) removeJob(t *testing.T, name string) {
	t.Helper()
	h.deleteJob(t, name)
	j := h.job(t, name)
	j.Finalizers = nil
	if err := h.Update(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}

func (h *theirs) removeServices(t *testing.T) {
	t.Helper()
	if err := h.DeleteAllOf(t.Context(), &corev1.Service{}, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
}

func (h *theirs) objects(t *testing.T) *objects {
	t.Helper()
	var jobs batchv1.JobList
	var services corev1.ServiceList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&jobs, &services, &claims} {
		if err := h.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	return &objects{Set: h.set(t), Jobs: named(jobs.Items), Services: named(services.Items), Claims: named(claims.Items)}
}

// named returns objects by their names.
func named[T any, P interface {
	*T
	client.Object
}](items []T) map[string]*T {
	out := map[string]*T{}
	for i := range items {
		out[P(&items[i]).GetName()] = &items[i]
	}
	return out
}

func (h *theirs) said() []string {
	out := h.events
	h.events = nil
	return out
}

// both are the sides, to which the same happens.
type both struct {
	t      *testing.T
	ours   *ours
	theirs *theirs
	now    time.Time // of what ends: each thing at another time
}

// begin lets both sides act for a JobSet.
func begin(t *testing.T, js *jobsetv1.JobSet) *both {
	t.Helper()
	js.Namespace, js.Name, js.UID = namespace, setName, "u"
	for i := range js.Spec.ReplicatedJobs {
		spec := &js.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec
		if len(spec.Containers) == 0 {
			spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		}
	}
	kind := api.Kind()
	kind.Default(js)
	if errs := kind.Strategy.Validate(t.Context(), js); len(errs) > 0 {
		t.Fatal(errs)
	}
	b := &both{t: t, ours: newOurs(js), theirs: newTheirs(t, js), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.settle()
	return b
}

func (b *both) settle() {
	b.t.Helper()
	b.ours.settle(b.t)
	b.theirs.settle(b.t)
}

// each lets something happen on both sides.
func (b *both) each(do func(s side)) {
	do(b.ours)
	do(b.theirs)
}

// jobs are the names of the Jobs that are there.
func (b *both) jobs() []string { return slices.Sorted(maps.Keys(b.ours.o.Jobs)) }

// end lets a Job end at a time of its own.
func (b *both) end(name string, as batchv1.JobConditionType, reason, message string) {
	b.t.Helper()
	b.now = b.now.Add(time.Second)
	b.each(func(s side) {
		s.changeJob(b.t, name, func(j *batchv1.Job) {
			j.Status = batchv1.JobStatus{StartTime: j.Status.StartTime, Conditions: []batchv1.JobCondition{{
				Type: as, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(b.now),
			}}}
		})
	})
}

// begins lets pods of a Job run, of which some are ready.
func (b *both) begins(name string, ready func(pods int32) int32) {
	b.t.Helper()
	b.each(func(s side) {
		s.changeJob(b.t, name, func(j *batchv1.Job) {
			n := ready(*j.Spec.Parallelism)
			j.Status.StartTime, j.Status.Active, j.Status.Ready = &metav1.Time{Time: b.now}, *j.Spec.Parallelism, &n
		})
	})
}

// suspended takes away the pods of a Job whose side has suspended it.
func suspended(j *batchv1.Job) { j.Status.Active, j.Status.Ready = 0, nil }
