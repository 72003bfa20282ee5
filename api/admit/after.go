package admit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// maxAwaited is for how many others one may wait, over those that it waits for.
const maxAwaited = 1000

// After refuses Jobs and JobSets that wait for each other in a circle, and warns of those that wait for what there is not, or what has ended
// otherwise. It leaves those running that were held back, also until a time, and whose manifest is applied
// again. Two that are created at the same moment may form a circle all the same; then both wait.
type After struct{ Store *store.Store }

var (
	_ admission.MutationInterface   = After{}
	_ admission.ValidationInterface = After{}
)

func (After) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// appliers are the names under which programs write that apply whole manifests: kubectl, by either kind of apply, and Helm.
var appliers = []string{"kubectl-client-side-apply", "kubectl", "helm"}

// Admit implements admission.MutationInterface. A manifest that has the annotation has spec.suspend too, and so would suspend a Job
// that waits no more, and stop its pods, whenever it is applied again.
func (After) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	options, ok := a.GetOperationOptions().(*metav1.UpdateOptions)
	if !ok || a.GetSubresource() != "" || a.GetOperation() != admission.Update || !slices.Contains(appliers, options.FieldManager) {
		return nil
	}
	switch o := a.GetObject().(type) {
	case *batchv1.Job:
		if old, was := a.GetOldObject().(*batchv1.Job); was && batch.SuspendsAgain(o, old) {
			o.Spec.Suspend = ptr.To(false)
			staysResumed(ctx, "Job", o.Annotations, old.Annotations)
		}
	case *jobsetv1.JobSet:
		if old, was := a.GetOldObject().(*jobsetv1.JobSet); was && jobset.SuspendsAgain(o, old) {
			o.Spec.Suspend = ptr.To(false)
			staysResumed(ctx, "JobSet", o.Annotations, old.Annotations)
		}
	}
	return nil
}

func staysResumed(ctx context.Context, kind string, annotations, old map[string]string) {
	warning.AddWarning(ctx, "", fmt.Sprintf("spec.suspend: stays false, since the %s was resumed at %s, and is held back by %s no more; "+
		"jobctl suspend suspends it", kind, old[batch.ResumedAnnotation], batch.HeldBy(annotations)))
}

func (r After) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	of, ok := waiterOf(a.GetObject())
	if !ok || !of.awaits {
		return nil
	}
	if old, ok := waiterOf(a.GetOldObject()); ok && old.awaits && old.annotations[batch.AfterAnnotation] == of.annotations[batch.AfterAnnotation] {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(batch.AfterAnnotation)
	return r.Store.View(func(s *store.Snapshot) error {
		walk := awaited{ctx: ctx, store: s, namespace: a.GetNamespace(), from: of, seen: map[string]bool{}}
		if err := walk.over(of.needs(), []string{of.Ref()}); err != nil {
			return err
		}
		if walk.wrong != "" {
			return apierrors.NewInvalid(a.GetKind().GroupKind(), of.Name, field.ErrorList{
				field.Invalid(path, of.annotations[batch.AfterAnnotation], walk.wrong),
			})
		}
		return r.warn(ctx, s, a.GetNamespace(), of.needs(), path)
	})
}

// warn says which of those that one waits for may never end as it needs.
func (After) warn(ctx context.Context, s *store.Snapshot, namespace string, needs []batch.Need, path *field.Path) error {
	for _, n := range needs {
		w, err := storedWaiter(s, namespace, n)
		if err != nil {
			return err
		}
		switch {
		case w == nil:
			warning.AddWarning(ctx, "", fmt.Sprintf("%s: there is no %s %q yet: this one waits until there is, and for %s", path, n.Kind(), n.Name, n.Words()))
		case w.end != "" && !n.Met(w.end):
			another := "another attempt of it"
			if n.Set {
				another = "that it is created anew"
			}
			warning.AddWarning(ctx, "", fmt.Sprintf("%s: %s %q is %s, and this one waits for %s, which takes %s",
				path, n.Kind(), n.Name, strings.ToLower(string(w.end)), n.Words(), another))
		}
	}
	return nil
}

// waiter is a Job or a JobSet that may wait for others.
type waiter struct {
	batch.Need  // that it is for others
	annotations map[string]string
	awaits      bool
	end         batchv1.JobConditionType // empty while it goes on
	// part is the JobSet that the Job belongs to, and does not start before; own are the names of the Jobs of a JobSet.
	part string
	own  func(job string) bool
}

// waiterOf returns what is known of a Job or a JobSet.
func waiterOf(obj any) (*waiter, bool) {
	switch o := obj.(type) {
	case *batchv1.Job:
		w := &waiter{Need: batch.Need{Name: o.Name}, annotations: o.Annotations, awaits: batch.AwaitsJobs(o)}
		if w.part, _ = batch.SetOf(o); batch.End(&o.Status) != nil {
			w.end = batch.End(&o.Status).Type
		}
		return w, true
	case *jobsetv1.JobSet:
		return &waiter{
			Need: batch.Need{Name: o.Name, Set: true}, annotations: o.Annotations, awaits: jobset.Awaits(o), end: jobset.Result(&o.Status),
			own: func(job string) bool { return jobset.OwnJob(o, job) },
		}, true
	}
	return nil, false
}

// needs are the others that it waits for. A Job of a JobSet does not start before that does.
func (w *waiter) needs() (all []batch.Need) {
	if w.awaits {
		all = batch.After(w.annotations)
	}
	if w.part != "" && w.end == "" {
		all = append(all, batch.Need{Name: w.part, Set: true})
	}
	return all
}

// awaited is a walk from a Job or JobSet over those that it waits for.
type awaited struct {
	ctx       context.Context
	store     *store.Snapshot
	namespace string
	from      *waiter
	seen      map[string]bool
	wrong     string // what is wrong with it
}

// over walks on over what the last one of a way needs. It ends with what is wrong.
func (w *awaited) over(needs []batch.Need, way []string) error {
	for _, n := range needs {
		ref := n.Ref()
		switch {
		case w.wrong != "":
			return nil
		case ref == w.from.Ref():
			w.wrong = circle(append(slices.Clip(way), ref))
			return nil
		case !n.Set && w.from.own != nil && w.from.own(n.Name): // there may be no such Job yet
			w.wrong = circle(append(slices.Clip(way), ref, w.from.Ref()))
			return nil
		case w.seen[ref]:
			continue
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.seen[ref] = true; len(w.seen) > maxAwaited {
			w.wrong = fmt.Sprintf("it would wait for more than %d Jobs, with those that they wait for", maxAwaited)
			return nil
		}
		of, err := storedWaiter(w.store, w.namespace, n)
		if err != nil {
			return err
		}
		if of != nil {
			if err := w.over(of.needs(), append(slices.Clip(way), ref)); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxCircle is how many of a circle are named.
const maxCircle = 10

func circle(way []string) string {
	if len(way) > maxCircle {
		way = append(append(slices.Clone(way[:maxCircle-2]), "..."), way[len(way)-2:]...)
	}
	return "makes a circle, in which no Job would ever start: " + strings.Join(way, " waits for ")
}

// awaitedFields are what tells whether a Job waits for others, and how it has ended.
var awaitedFields = scheme.FieldsOf[batchv1.Job](
	"metadata.name", "metadata.annotations", "metadata.ownerReferences", "metadata.deletionTimestamp", "spec.suspend", "spec.managedBy",
	"status.conditions",
)

// storedWaiter reads as much of what is needed as tells that; nil if there is none.
func storedWaiter(s *store.Snapshot, namespace string, n batch.Need) (*waiter, error) {
	resource, job, set := batchJobs, &batchv1.Job{}, &jobsetv1.JobSet{}
	if n.Set {
		resource = jobSets
	}
	o, ok := s.Get(store.Key(resource, namespace, n.Name))
	if !ok {
		return nil, nil
	}
	var err error
	var obj any = job
	if n.Set {
		obj, err = set, scheme.Decode(o.Value, set)
	} else {
		err = scheme.DecodePart(o.Value, awaitedFields, job)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	w, _ := waiterOf(obj)
	return w, nil
}
