package forward

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
)

// bring brings the status back, and before that says how a Job has ended, all that is known of its pods.
func (f *Forwarder) bring(ctx context.Context, l, r *batchv1.Job) error {
	if finished(r) && !finished(l) {
		lost, err := f.settle(ctx, l, r)
		if err != nil {
			return err
		}
		if came := f.comesLate(l, r); came != nil {
			return f.patchHere(ctx, l, map[string]any{"annotations": recordOn(came)})
		}
		if lost != nil {
			f.event(ctx, l, corev1.EventTypeWarning, "PodsLost",
				fmt.Sprintf("Not all is known of the pods that the Job had in the cluster %s: %v", f.Cluster, lost))
		}
	}
	for _, s := range Statuses(l, r, f.now()) {
		put, err := f.putStatus(ctx, l, s)
		if err != nil {
			return err
		}
		l = put
	}
	return nil
}

// late is how long after its end a Job may end here before that is recorded.
const late = time.Minute

// comesLate returns the record of a Job that has ended long ago, as while the line was cut, with the time when that is known here: its TTL
// counts from then.
func (f *Forwarder) comesLate(l, r *batchv1.Job) *clusters.Record {
	record, now := clusters.RecordOf(l), metav1.NewTime(f.now().Truncate(time.Second))
	if record == nil || record.Came != nil || now.Sub(batch.End(&r.Status).LastTransitionTime.Time) < late {
		return nil
	}
	record.Came = &now
	return record
}

// fail ends the Job here.
func (f *Forwarder) fail(ctx context.Context, l *batchv1.Job) error {
	if err := f.removePods(ctx, l, nil); err != nil {
		return err
	}
	s := lost(l, f.Cluster, f.now())
	if _, err := f.putStatus(ctx, l, s); err != nil {
		return err
	}
	f.event(ctx, l, corev1.EventTypeWarning, clusters.ReasonRemoteJobDeleted, "Somebody has removed the Job from the cluster "+f.Cluster)
	return nil
}

func (f *Forwarder) putStatus(ctx context.Context, l *batchv1.Job, s batchv1.JobStatus) (put *batchv1.Job, err error) {
	out := l.DeepCopy()
	out.Status = s
	err = f.ask(ctx, func(ctx context.Context) (err error) {
		put, err = f.local.BatchV1().Jobs(l.Namespace).UpdateStatus(ctx, out, metav1.UpdateOptions{FieldManager: fieldManager})
		return err
	})
	return put, err
}
