package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/internal/handover"
)

// What the steps of Decide do. A write here carries the version of the Job that was decided on, one there its UID, so that nothing is done to
// another Job than was meant.

// hold takes the Job: from then on it does not go before the one there.
func (f *Forwarder) hold(ctx context.Context, l *batchv1.Job) error {
	meta := map[string]any{}
	if !slices.Contains(l.Finalizers, clusters.Finalizer) {
		meta["finalizers"] = append(slices.Clone(l.Finalizers), clusters.Finalizer)
	}
	if made := clusters.RecordOf(l); made == nil || made.UID == "" {
		meta["annotations"] = map[string]string{
			clusters.RecordAnnotation: clusters.Record{Job: l.UID, Namespace: f.into(l.Namespace)}.Annotation(),
		}
	}
	return f.patchHere(ctx, l, meta)
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

// create makes the Job there, with what it needs, unless it would not run there as it does here.
func (f *Forwarder) create(ctx context.Context, l *batchv1.Job) error {
	namespace := f.there(l)
	b, err := f.pack(ctx, l, namespace)
	switch {
	case err != nil && handover.Refused(err):
		return f.refuse(ctx, l, err.Error())
	case err != nil:
		return err
	}
	c := Copy(l, namespace, f.origin)
	wrong, err := f.wrong(ctx, c, b)
	switch {
	case apierrors.IsConflict(err): // it was made meanwhile
		return err
	case err != nil && handover.Refused(err):
		return f.refuse(ctx, l, err.Error())
	case err != nil:
		return err
	case len(wrong) > 0:
		return f.refuse(ctx, l, strings.Join(wrong, "; "))
	}
	if err := f.send(ctx, b); err != nil {
		if handover.Refused(err) {
			return f.refuse(ctx, l, err.Error())
		}
		return err
	}
	b.rename(c)
	if err := f.unchanged(ctx, l); err != nil {
		return err
	}
	made, err := f.make(ctx, c, nil)
	switch {
	case apierrors.IsAlreadyExists(err):
		return err // by an earlier request, or by somebody else: Decide finds out
	case err != nil && handover.Refused(err):
		return f.refuse(ctx, l, err.Error())
	case err != nil:
		return err
	}
	f.event(ctx, l, corev1.EventTypeNormal, "Forwarded", fmt.Sprintf("Created job %s/%s in the cluster %s", made.Namespace, made.Name, f.Cluster))
	return f.adopt(ctx, l, made) // at once: whoever removed it before would have it made again
}

// unchanged asks whether the Job is as it was decided on. A write here is refused if it is not; one there would make a Job again that is
// known to have been made, and removed, where that has not come through the watch yet.
func (f *Forwarder) unchanged(ctx context.Context, l *batchv1.Job) error {
	return f.ask(ctx, func(ctx context.Context) error {
		is, err := f.local.BatchV1().Jobs(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
		if err == nil && (is.UID != l.UID || is.ResourceVersion != l.ResourceVersion) {
			err = apierrors.NewConflict(batchv1.Resource("jobs"), l.Name, errors.New("it has changed meanwhile"))
		}
		return err
	})
}

// make makes a Job there, or has the cluster try whether it could be made.
func (f *Forwarder) make(ctx context.Context, c *batchv1.Job, dryRun []string) (made *batchv1.Job, err error) {
	err = f.ask(ctx, func(ctx context.Context) (err error) {
		made, err = f.remote.BatchV1().Jobs(c.Namespace).Create(ctx, c, metav1.CreateOptions{
			FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun,
		})
		return err
	})
	return made, err
}

// wrong says why the Job would not run there as it does here.
func (f *Forwarder) wrong(ctx context.Context, c *batchv1.Job, b bundle) (wrong []string, err error) {
	made, err := f.make(ctx, c, []string{metav1.DryRunAll})
	if err != nil {
		if apierrors.IsAlreadyExists(err) {
			err = apierrors.NewConflict(batchv1.Resource("jobs"), c.Name, err)
		}
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, requestTime)
	defer done()
	jobd, err := f.isJobd()
	if err != nil {
		return nil, err
	}
	w := handover.OfJob(c)
	w.Brings = b.names()
	there, err := handover.Look(ctx, f.remote, c.Namespace, f.Cluster, jobd, handover.Needs(w))
	if err != nil {
		return nil, err
	}
	for _, finding := range handover.Wrong(handover.Check(w, handover.ImagesOf(ctx, f.local.Discovery()), there)) {
		wrong = append(wrong, finding.String())
	}
	if slices.ContainsFunc(there.Lacks, func(n handover.Need) bool { return n.Kind == secret }) && !f.Secrets {
		wrong = append(wrong, "Secrets go there only if the forwarder has --secrets")
	}
	left, err := handover.Left(c, made)
	for _, path := range left {
		wrong = append(wrong, path+": "+f.Cluster+" does not know this field, or has switched it off")
	}
	return wrong, err
}

// isJobd reports whether the cluster is a jobd, which is asked once.
func (f *Forwarder) isJobd() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobd == nil {
		is, err := handover.IsJobd(f.remote.Discovery())
		if err != nil {
			return false, err
		}
		f.jobd = &is
	}
	return *f.jobd, nil
}

// errRefused has a Job tried again that the cluster does not take: what is missing may come.
var errRefused = errors.New("the Job cannot be made there")

// refuse says in the Job's status why it is not made there.
func (f *Forwarder) refuse(ctx context.Context, l *batchv1.Job, why string) error {
	if err := f.tell(ctx, l, clusters.NotForwarded, clusters.ReasonRefused, why); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", errRefused, why)
}

// tell says something in the Job's status, and in an event if it is new.
func (f *Forwarder) tell(ctx context.Context, l *batchv1.Job, t batchv1.JobConditionType, reason, message string) error {
	now := f.now()
	s := told(l, t, reason, message, now)
	at := func(s batchv1.JobStatus) string {
		i := slices.IndexFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == t })
		if i < 0 {
			return ""
		}
		return s.Conditions[i].Reason + s.Conditions[i].Message
	}
	if at(s) == at(l.Status) {
		return nil
	}
	if _, err := f.putStatus(ctx, l, s); err != nil {
		return err
	}
	f.event(ctx, l, corev1.EventTypeWarning, strings.TrimPrefix(string(t), clusters.Manager("")), message)
	return nil
}

func (f *Forwarder) tellTaken(ctx context.Context, l, r *batchv1.Job) error {
	return f.tell(ctx, l, clusters.NotForwarded, clusters.ReasonNameTaken,
		fmt.Sprintf("The cluster %s has another Job %s/%s, which was not made of this one", f.Cluster, r.Namespace, r.Name))
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

// adopt records that the Job was made.
func (f *Forwarder) adopt(ctx context.Context, l, r *batchv1.Job) error {
	if err := f.own(ctx, r); err != nil {
		return err
	}
	id, err := f.identity(ctx)
	if err != nil {
		return err
	}
	return f.patchHere(ctx, l, map[string]any{"annotations": map[string]string{
		clusters.RecordAnnotation: clusters.Record{Job: l.UID, UID: r.UID, Namespace: r.Namespace, Cluster: id}.Annotation(),
	}})
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

// bring brings the status back, and before that says how a Job has ended, all that is known of its pods.
func (f *Forwarder) bring(ctx context.Context, l, r *batchv1.Job) error {
	if finished(r) && !finished(l) {
		lost, err := f.settle(ctx, l, r)
		if err != nil {
			return err
		}
		if came := f.comesLate(l, r); came != nil {
			return f.patchHere(ctx, l, map[string]any{"annotations": map[string]string{clusters.RecordAnnotation: came.Annotation()}})
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

// fail ends the Job here, unless it was made in another cluster than the one that is reached, as far as may be known: somebody has given the
// forwarder a wrong kubeconfig, and the Job goes on where it is.
func (f *Forwarder) fail(ctx context.Context, l *batchv1.Job) error {
	id, err := f.identity(ctx)
	if err != nil {
		return err
	}
	if made := clusters.RecordOf(l); made != nil && made.Cluster != "" && made.Cluster != id {
		other := "The forwarder reaches another cluster than the one in which the Job was made"
		if id == "" {
			other = "The forwarder does not find the Job, and may not get the namespace kube-system, by which it would know the cluster in which it was made"
		}
		if err := f.tell(ctx, l, clusters.Unreachable, clusters.ReasonOtherCluster, other); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", errRefused, other)
	}
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
	if err := f.removeThere(ctx, r, policy, is); err != nil {
		return err
	}
	f.queue.AddAfter(key{ofJob, l.Namespace, l.Name}, firstRetry)
	return nil
}

func (f *Forwarder) removeThere(ctx context.Context, r *batchv1.Job, policy metav1.DeletionPropagation, is metav1.Preconditions) error {
	err := f.ask(ctx, func(ctx context.Context) error {
		return f.remote.BatchV1().Jobs(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &is})
	})
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

// event writes an event about the Job here. One that cannot be written is not worth another try.
func (f *Forwarder) event(ctx context.Context, l *batchv1.Job, kind, reason, message string) {
	at := metav1.NewTime(f.now())
	err := f.ask(ctx, func(ctx context.Context) error {
		_, err := f.local.CoreV1().Events(l.Namespace).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", l.Name, at.UnixNano())}, InvolvedObject: jobReference(l),
			Type: kind, Reason: reason, Message: message, FirstTimestamp: at, LastTimestamp: at, Count: 1,
			Source: corev1.EventSource{Component: fieldManager}, ReportingController: clusters.Manager(f.Cluster),
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil && ctx.Err() == nil {
		f.Logger.Warn("cannot write an event", "job", l.Namespace+"/"+l.Name, "reason", reason, "error", err)
	}
}

func jobReference(l *batchv1.Job) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: l.Namespace, Name: l.Name, UID: l.UID}
}

// beat renews the Lease by which it is known that the cluster has a forwarder.
func (f *Forwarder) beat(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := f.renew(ctx); err != nil && ctx.Err() == nil {
			f.Logger.Warn("cannot renew the Lease by which it is known that this runs", "error", err)
		}
	}, clusters.LeaseSeconds*time.Second/4)
}

func (f *Forwarder) renew(ctx context.Context) error {
	l := clusters.Lease(f.Cluster, f.now())
	leases := f.local.CoordinationV1().Leases(l.Namespace)
	return f.ask(ctx, func(ctx context.Context) error {
		_, err := leases.Patch(ctx, l.Name, types.MergePatchType, []byte(text(map[string]any{"spec": l.Spec})), metav1.PatchOptions{FieldManager: fieldManager})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(ctx, l, metav1.CreateOptions{FieldManager: fieldManager})
		}
		return err
	})
}
