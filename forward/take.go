package forward

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/internal/handover"
)

// What the steps of Decide do. A write here carries the version of the Job that was decided on, one there its UID, so that nothing is done to
// another Job than was meant.

// hold takes the Job: from then on it does not go before the one there, and it is known in which cluster that may be, even if the answer to
// the request that makes it is lost.
func (f *Forwarder) hold(ctx context.Context, s Seen) error {
	l := s.Local
	meta := map[string]any{}
	if !slices.Contains(l.Finalizers, clusters.Finalizer) {
		meta["finalizers"] = append(slices.Clone(l.Finalizers), clusters.Finalizer)
	}
	if record := cmp.Or(clusters.RecordOf(l), &clusters.Record{Job: l.UID}); record.UID == "" {
		record.Namespace, record.Cluster, record.Machine = s.Namespace, cmp.Or(record.Cluster, s.Cluster), cmp.Or(record.Machine, s.Origin.Machine)
		meta["annotations"] = recordOn(record)
	}
	return f.patchHere(ctx, l, meta)
}

// recordOn returns the annotations by which a Job has a record.
func recordOn(r *clusters.Record) map[string]string {
	return map[string]string{clusters.RecordAnnotation: r.Annotation()}
}

// patchHere changes the metadata of the Job here.
func (f *Forwarder) patchHere(ctx context.Context, l *batchv1.Job, meta map[string]any) error {
	meta["resourceVersion"] = l.ResourceVersion
	return f.ask(ctx, func(ctx context.Context) error {
		_, err := f.local.BatchV1().Jobs(l.Namespace).Patch(ctx, l.Name, types.MergePatchType, []byte(text(map[string]any{"metadata": meta})),
			metav1.PatchOptions{FieldManager: fieldManager})
		return err
	})
}

// patchThere changes the Job there.
func (f *Forwarder) patchThere(ctx context.Context, r *batchv1.Job, patch map[string]any) error {
	meta, _ := patch["metadata"].(map[string]any)
	meta["uid"] = r.UID
	return f.ask(ctx, func(ctx context.Context) error {
		_, err := f.remote.BatchV1().Jobs(r.Namespace).Patch(ctx, r.Name, types.MergePatchType, []byte(text(patch)),
			metav1.PatchOptions{FieldManager: fieldManager})
		return err
	})
}

// adopt records that the Job was made.
func (f *Forwarder) adopt(ctx context.Context, l, r *batchv1.Job) error {
	if err := f.own(ctx, l, r); err != nil {
		return err
	}
	if machine := f.origin.Machine; r.Labels[clusters.MachineLabel] != machine { // somebody has given it to this machine
		meta := map[string]any{"labels": map[string]string{clusters.MachineLabel: machine}}
		if err := f.patchThere(ctx, r, map[string]any{"metadata": meta}); err != nil {
			return err
		}
	}
	id, err := f.identity(ctx)
	if err != nil {
		return err
	}
	record := &clusters.Record{Job: l.UID, UID: r.UID, Namespace: r.Namespace, Cluster: id, Machine: f.origin.Machine}
	return f.patchHere(ctx, l, map[string]any{"annotations": recordOn(record)})
}

// pass passes on what was changed here. What the cluster refuses is said once.
func (f *Forwarder) pass(ctx context.Context, l, r *batchv1.Job) error {
	spec, ignored := Changes(l, r)
	meta := map[string]any{"annotations": map[string]string{clusters.SentAnnotation: sentOf(l).annotation()}}
	err := f.patchThere(ctx, r, map[string]any{"metadata": meta, "spec": spec})
	if err != nil && len(spec) > 0 && handover.Refused(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		ignored = append(ignored, err.Error())
		err = f.patchThere(ctx, r, map[string]any{"metadata": meta})
	}
	if err == nil && len(ignored) > 0 {
		f.event(ctx, l, corev1.EventTypeWarning, "ChangeIgnored",
			fmt.Sprintf("The cluster %s does not take what was changed here: %s", f.Cluster, strings.Join(ignored, "; ")))
	}
	return err
}

// remove removes the Job there. One that is removed because it has not ended must be the latest: a list of it may be old.
func (f *Forwarder) remove(ctx context.Context, l, r *batchv1.Job) error {
	policy := metav1.DeletePropagationBackground
	if slices.Contains(l.Finalizers, metav1.FinalizerDeleteDependents) {
		policy = metav1.DeletePropagationForeground
	}
	is := metav1.Preconditions{UID: &r.UID}
	if l.DeletionTimestamp == nil {
		is.ResourceVersion = &r.ResourceVersion
	}
	options := metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &is}
	if err := f.removeThere(ctx, f.remote.BatchV1().Jobs(r.Namespace), r.Name, options); err != nil {
		return err
	}
	f.queue.AddAfter(key{ofJob, l.Namespace, l.Name}, firstRetry)
	return nil
}

// remover removes objects of a kind from a namespace.
type remover interface {
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// removeThere removes an object there, unless it is gone.
func (f *Forwarder) removeThere(ctx context.Context, from remover, name string, options metav1.DeleteOptions) error {
	err := f.ask(ctx, func(ctx context.Context) error { return from.Delete(ctx, name, options) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (f *Forwarder) release(ctx context.Context, l *batchv1.Job) error {
	err := f.patchHere(ctx, l, map[string]any{
		"finalizers": slices.DeleteFunc(slices.Clone(l.Finalizers), func(name string) bool { return name == clusters.Finalizer }),
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
