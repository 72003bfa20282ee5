package forward

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jobd/jobd/api/clusters"
)

// strayAge is how old a copy without an owner is at least when it is removed: the Job that it is for may just be being made.
const strayAge = 10 * time.Minute

// sweeping removes what was left in the cluster, until ctx ends.
func (f *Forwarder) sweeping(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if !f.line.since().IsZero() {
			return
		}
		for _, o := range f.remoteJobs.list() {
			_, err := f.sweep(ctx, o.(*batchv1.Job))
			f.warn(ctx, err)
		}
		if !f.knowsAll() {
			return
		}
		waiting := f.waiting()
		for namespace := range f.remoteJobs {
			f.warn(ctx, f.sweepCopies(ctx, namespace, waiting))
		}
	}, sweepInterval)
}

func (f *Forwarder) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		f.Logger.Warn("cannot look for what was left in the cluster", "error", err)
	}
}

// sweep removes a Job there if the one here is gone, as when somebody has taken off its finalizer, and reports whether it is going.
func (f *Forwarder) sweep(ctx context.Context, r *batchv1.Job) (swept bool, err error) {
	if r.DeletionTimestamp != nil {
		return true, nil
	}
	from := r.Annotations[clusters.NamespaceAnnotation]
	if from == "" { // somebody has removed the annotation
		return false, nil
	}
	gone, err := f.jobIsGone(ctx, from, r.Name, types.UID(r.Labels[clusters.OriginUIDLabel]))
	if err != nil || !gone {
		return false, err
	}
	f.Logger.Info("removed from the cluster, since it is gone here", "job", from+"/"+r.Name)
	return true, f.removeThere(ctx, r, metav1.DeletePropagationBackground, metav1.Preconditions{UID: &r.UID})
}

// jobIsGone asks whether there is no such Job here any more.
func (f *Forwarder) jobIsGone(ctx context.Context, namespace, name string, uid types.UID) (gone bool, err error) {
	err = f.ask(ctx, func(ctx context.Context) error {
		l, err := f.local.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		gone = isGone(err) || err == nil && l.UID != uid
		return err
	})
	if gone {
		err = nil
	}
	return gone, err
}

// waiting returns the Jobs here that may still be made there, by what is known of them. Of those of other forwarders that is not known.
func (f *Forwarder) waiting() map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, o := range f.localJobs.list() {
		j := o.(*batchv1.Job)
		if made := clusters.RecordOf(j); made == nil || made.UID == "" {
			all[j.UID] = true
		}
	}
	return all
}

// sweepCopies removes copies that were made for a Job that was then not made, and does not wait for that any more.
func (f *Forwarder) sweepCopies(ctx context.Context, namespace string, waiting map[types.UID]bool) error {
	return f.ask(ctx, func(ctx context.Context) error {
		ours := metav1.ListOptions{LabelSelector: clusters.OriginLabel + "=" + string(f.origin)}
		maps, err := f.remote.CoreV1().ConfigMaps(namespace).List(ctx, ours)
		if err != nil {
			return err
		}
		for i := range maps.Items {
			if m := &maps.Items[i]; f.isStray(&m.ObjectMeta, waiting) {
				err = f.remote.CoreV1().ConfigMaps(m.Namespace).Delete(ctx, m.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.UID}})
				if err != nil && !apierrors.IsNotFound(err) {
					return err
				}
			}
		}
		if !f.Secrets {
			return nil
		}
		secrets, err := f.remote.CoreV1().Secrets(namespace).List(ctx, ours)
		if err != nil {
			return err
		}
		for i := range secrets.Items {
			if s := &secrets.Items[i]; f.isStray(&s.ObjectMeta, waiting) {
				err = f.remote.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})
				if err != nil && !apierrors.IsNotFound(err) {
					return err
				}
			}
		}
		return nil
	})
}

// isStray reports whether a copy has no owner, and will get none: nobody waits for it, and by the clock of the cluster and the one here it is
// old.
func (f *Forwarder) isStray(m *metav1.ObjectMeta, waiting map[types.UID]bool) bool {
	return len(m.OwnerReferences) == 0 && !waiting[types.UID(m.Labels[clusters.OriginUIDLabel])] && f.now().Sub(m.CreationTimestamp.Time) > strayAge
}
