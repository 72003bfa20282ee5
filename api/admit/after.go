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

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// maxAwaited is for how many Jobs another may wait, over those that it waits for.
const maxAwaited = 1000

// After refuses Jobs that wait for each other in a circle, and warns of those that wait for what there is not, or what has ended
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
	job, ok := a.GetObject().(*batchv1.Job)
	old, was := a.GetOldObject().(*batchv1.Job)
	if !ok || !was || a.GetSubresource() != "" || a.GetOperation() != admission.Update {
		return nil
	}
	options, ok := a.GetOperationOptions().(*metav1.UpdateOptions)
	if !ok || !slices.Contains(appliers, options.FieldManager) || !batch.SuspendsAgain(job, old) {
		return nil
	}
	job.Spec.Suspend = ptr.To(false)
	warning.AddWarning(ctx, "", fmt.Sprintf("spec.suspend: stays false, since the Job was resumed at %s, and is held back by %s no more; "+
		"jobctl suspend suspends it", old.Annotations[batch.ResumedAnnotation], batch.HeldBy(job.Annotations)))
	return nil
}

func (r After) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	job, ok := a.GetObject().(*batchv1.Job)
	if !ok || a.GetSubresource() != "" || !batch.AwaitsJobs(job) {
		return nil
	}
	if old, ok := a.GetOldObject().(*batchv1.Job); ok && batch.AwaitsJobs(old) &&
		old.Annotations[batch.AfterAnnotation] == job.Annotations[batch.AfterAnnotation] {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(batch.AfterAnnotation)
	return r.Store.View(func(s *store.Snapshot) error {
		walk := awaited{ctx: ctx, store: s, namespace: a.GetNamespace(), from: job.Name, seen: map[string]bool{}}
		if err := walk.over(batch.After(job.Annotations), []string{job.Name}); err != nil {
			return err
		}
		if walk.wrong != "" {
			return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), job.Name, field.ErrorList{
				field.Invalid(path, job.Annotations[batch.AfterAnnotation], walk.wrong),
			})
		}
		return r.warn(ctx, s, a.GetNamespace(), batch.After(job.Annotations), path)
	})
}

// warn says which of the Jobs that another waits for may never end as it needs.
func (After) warn(ctx context.Context, s *store.Snapshot, namespace string, needs []batch.Need, path *field.Path) error {
	for _, n := range needs {
		j, err := awaitedJob(s, namespace, n.Name)
		if err != nil {
			return err
		}
		switch {
		case j == nil:
			warning.AddWarning(ctx, "", fmt.Sprintf("%s: there is no Job %q yet: this one waits until there is, and for %s", path, n.Name, n.Words()))
		case batch.End(&j.Status) != nil && !n.Met(batch.End(&j.Status).Type):
			warning.AddWarning(ctx, "", fmt.Sprintf("%s: Job %q is %s, and this one waits for %s, which takes another attempt of it",
				path, n.Name, strings.ToLower(string(batch.End(&j.Status).Type)), n.Words()))
		}
	}
	return nil
}

// awaited is a walk from a Job over those that it waits for.
type awaited struct {
	ctx       context.Context
	store     *store.Snapshot
	namespace string
	from      string
	seen      map[string]bool
	wrong     string // what is wrong with it
}

// over walks on over what the last Job of a way needs. It ends with what is wrong.
func (w *awaited) over(needs []batch.Need, way []string) error {
	for _, n := range needs {
		switch {
		case w.wrong != "":
			return nil
		case n.Name == w.from:
			w.wrong = circle(append(slices.Clip(way), w.from))
			return nil
		case w.seen[n.Name]:
			continue
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.seen[n.Name] = true; len(w.seen) > maxAwaited {
			w.wrong = fmt.Sprintf("it would wait for more than %d Jobs, with those that they wait for", maxAwaited)
			return nil
		}
		j, err := awaitedJob(w.store, w.namespace, n.Name)
		if err != nil {
			return err
		}
		if j != nil && batch.AwaitsJobs(j) {
			if err := w.over(batch.After(j.Annotations), append(slices.Clip(way), n.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxCircle is how many Jobs of a circle are named.
const maxCircle = 10

func circle(way []string) string {
	if len(way) > maxCircle {
		way = append(append(slices.Clone(way[:maxCircle-2]), "..."), way[len(way)-2:]...)
	}
	return "makes a circle, in which no Job would ever start: " + strings.Join(way, " waits for ")
}

// awaitedFields are what tells whether a Job waits for others, and how it has ended.
var awaitedFields = scheme.FieldsOf[batchv1.Job](
	"metadata.annotations", "metadata.deletionTimestamp", "spec.suspend", "spec.managedBy", "status.conditions",
)

// awaitedJob reads as much of a Job as tells that; nil if there is none.
func awaitedJob(s *store.Snapshot, namespace, name string) (*batchv1.Job, error) {
	o, ok := s.Get(store.Key(batchJobs, namespace, name))
	if !ok {
		return nil, nil
	}
	j := &batchv1.Job{}
	if err := scheme.DecodePart(o.Value, awaitedFields, j); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return j, nil
}
