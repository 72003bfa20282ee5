package forward

import (
	"cmp"
	"context"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
)

// sweeping removes what was left in the cluster, until ctx ends.
func (f *Forwarder) sweeping(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if !f.line.since().IsZero() {
			return
		}
		for _, o := range f.remoteJobs.list() {
			r := o.(*batchv1.Job)
			_, err := f.sweep(ctx, r, f.remote.BatchV1().Jobs(r.Namespace))
			f.warn(ctx, err)
		}
		for namespace := range f.remoteJobs {
			for _, k := range []string{configMap, secret} {
				if k == configMap || f.Secrets {
					f.warn(ctx, f.sweepCopies(ctx, k, namespace))
				}
			}
		}
	}, sweepInterval)
}

func (f *Forwarder) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		f.Logger.Warn("cannot look for what was left in the cluster", "error", err)
	}
}

// sweepCopies removes the copies of a kind that were made for Jobs which are gone here, and were not made there. Others go with their owners.
func (f *Forwarder) sweepCopies(ctx context.Context, kind, namespace string) error {
	var all []metav1.Object
	err := f.ask(ctx, func(ctx context.Context) (err error) {
		all, err = f.copiesOf(kind, namespace).list(ctx, clusters.OriginLabel+"="+string(f.origin.Jobd))
		return err
	})
	for _, o := range all {
		if len(o.GetOwnerReferences()) > 0 {
			continue
		}
		if _, failed := f.sweep(ctx, o, f.copiesOf(kind, o.GetNamespace())); failed != nil {
			err = failed
		}
	}
	return err
}

// sweep removes what was made there for a Job, itself or what came with it, if the one here is gone, as when somebody has taken off its
// finalizer, and reports whether it is going. What another machine has made is left alone, even if the state of this one is a copy of that
// one's: here nothing is known of its Jobs.
func (f *Forwarder) sweep(ctx context.Context, o metav1.Object, from remover) (swept bool, err error) {
	if o.GetDeletionTimestamp() != nil {
		return true, nil
	}
	namespace, name := o.GetAnnotations()[clusters.NamespaceAnnotation], cmp.Or(o.GetAnnotations()[clusters.JobAnnotation], o.GetName())
	if namespace == "" || o.GetLabels()[clusters.MachineLabel] != f.origin.Machine { // or somebody has removed the annotation
		return false, nil
	}
	gone, err := f.jobIsGone(ctx, namespace, name, types.UID(o.GetLabels()[clusters.OriginUIDLabel]))
	if err != nil || !gone {
		return false, err
	}
	f.Logger.Info("removed from the cluster, since its Job is gone here", "job", namespace+"/"+name, "namespace", o.GetNamespace(), "name", o.GetName())
	return true, f.removeThere(ctx, from, o.GetName(), metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground), Preconditions: metav1.NewUIDPreconditions(string(o.GetUID())),
	})
}

// jobIsGone asks whether there is no such Job here any more.
func (f *Forwarder) jobIsGone(ctx context.Context, namespace, name string, uid types.UID) (gone bool, err error) {
	if l, ok := f.localJobs.get(namespace, name).(*batchv1.Job); ok && l.UID == uid {
		return false, nil
	}
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
