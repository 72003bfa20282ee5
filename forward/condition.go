package forward

import (
	"context"
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/internal/handover"
)

// errRefused has a Job tried again that the cluster does not take: what is missing may come.
var errRefused = errors.New("the Job cannot be made there")

// orRefuse says in the Job's status why it is not made there, if a server has refused something.
func (f *Forwarder) orRefuse(ctx context.Context, l *batchv1.Job, err error) error {
	if handover.Refused(err) {
		return f.refuse(ctx, l, err.Error())
	}
	return err
}

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
	s := saying(l, t, reason, message, now)
	at := func(s batchv1.JobStatus) string {
		if c := conditions.Find(s.Conditions, t); c != nil {
			return c.Reason + c.Message
		}
		return ""
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

// tellElsewhere says why nothing is done about the Job, and by which words somebody who knows better has it done nevertheless.
func (f *Forwarder) tellElsewhere(ctx context.Context, s Seen) error {
	reason := s.elsewhere()
	why := "The forwarder reaches another cluster than the one in which the Job was made, or may have been"
	switch {
	case reason == clusters.ReasonOtherMachine:
		why = "The Job is in the cluster for another machine, of whose state this one has a copy, unless its hardware was changed"
	case s.Cluster == "":
		why = "The forwarder does not find the Job, and may not get the namespace kube-system, by which it would know the cluster in which it was made, or may have been"
	}
	return f.tell(ctx, s.Local, clusters.Unreachable, reason, fmt.Sprintf(
		"%s. Nothing is done about it there. If it is to be this machine's, and in the cluster %s: jobctl annotate jobs/%s -n %s %s-",
		why, f.Cluster, s.Local.Name, s.Local.Namespace, clusters.RecordAnnotation))
}

func (f *Forwarder) tellTaken(ctx context.Context, l, r *batchv1.Job) error {
	return f.tell(ctx, l, clusters.NotForwarded, clusters.ReasonNameTaken,
		fmt.Sprintf("The cluster %s has another Job %s/%s, which was not made of this one", f.Cluster, r.Namespace, r.Name))
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
