package forward

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/conditions"
)

// CopyEvent returns the event here of one there that is about a Job or a pod.
func CopyEvent(there *corev1.Event, about corev1.ObjectReference, cluster string) *corev1.Event {
	about.FieldPath = there.InvolvedObject.FieldPath
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.Namespace, Name: about.Name + "." + string(there.UID)},
		InvolvedObject: about, Type: there.Type, Reason: there.Reason, Message: conditions.Brief(there.Message),
		FirstTimestamp: there.FirstTimestamp, LastTimestamp: there.LastTimestamp, Count: max(there.Count, 1),
		Source: corev1.EventSource{Component: clusters.Manager(cluster)}, ReportingController: clusters.Manager(cluster),
	}
	if s := there.Series; s != nil {
		e.Count, e.LastTimestamp = s.Count, metav1.NewTime(s.LastObservedTime.Time)
	}
	if e.FirstTimestamp.IsZero() {
		e.FirstTimestamp = metav1.NewTime(there.EventTime.Time)
	}
	if e.LastTimestamp.IsZero() {
		e.LastTimestamp = e.FirstTimestamp
	}
	return e
}

const (
	// eventDelay is how long an event waits at first for that which it is about to be known.
	eventDelay = time.Second
	// eventRetry is when it is looked again, and eventPatience for how long.
	eventRetry, eventPatience = 5 * time.Second, 5 * time.Minute
)

// postpone lets an event be copied later, and reports whether there is a place to wait.
func (f *Forwarder) postpone(e *corev1.Event) bool {
	select {
	case f.postponed <- struct{}{}:
	default:
		return false
	}
	time.AfterFunc(eventRetry, func() {
		<-f.postponed
		_ = eventSink{f.events}.Add(e) // which takes events
	})
	return true
}

// copyEvents copies events of the cluster until ctx ends.
func (f *Forwarder) copyEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-f.events:
			if since := f.now().Sub(e.LastTimestamp.Time); since >= 0 && since < eventDelay {
				select {
				case <-ctx.Done():
					return
				case <-time.After(eventDelay - since):
				}
			}
			err := f.copyEvent(ctx, e)
			if errors.Is(err, errNoPod) && f.now().Sub(e.LastTimestamp.Time) < eventPatience && f.postpone(e) {
				continue
			}
			if err != nil && ctx.Err() == nil {
				f.Logger.Warn("an event of the cluster is lost", "event", e.Namespace+"/"+e.Name, "reason", e.Reason, "error", err)
			}
		}
	}
}

func (f *Forwarder) copyEvent(ctx context.Context, e *corev1.Event) error {
	about, err := f.subject(ctx, e)
	if err != nil || about == nil {
		return err
	}
	return f.ask(ctx, func(ctx context.Context) error {
		c := CopyEvent(e, *about, f.Cluster)
		events := f.local.CoreV1().Events(c.Namespace)
		_, err := events.Create(ctx, c, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			patch := text(map[string]any{"count": c.Count, "lastTimestamp": c.LastTimestamp, "message": c.Message})
			_, err = events.Patch(ctx, c.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fieldManager})
		}
		return err
	})
}

var errNoPod = errors.New("the pod that it is about is not known here")

// subject returns what an event there is about here; nil if it is none of ours.
func (f *Forwarder) subject(ctx context.Context, e *corev1.Event) (*corev1.ObjectReference, error) {
	switch on := e.InvolvedObject; on.Kind {
	case "Job":
		r, ok := f.remoteJobs.get(on.Namespace, on.Name).(*batchv1.Job)
		if !ok || r.UID != on.UID {
			return nil, nil
		}
		l := f.localJob(r.Annotations[clusters.NamespaceAnnotation], r.Name)
		if l == nil || string(l.UID) != r.Labels[clusters.OriginUIDLabel] {
			return nil, nil
		}
		about := jobReference(l)
		return &about, nil
	case "Pod":
		p, ok := f.remotePods.get(on.Namespace, on.Name).(*corev1.Pod)
		if !ok || p.UID != on.UID {
			return nil, nil
		}
		l, _ := f.jobsOf(p)
		if l == nil {
			return nil, nil
		}
		var here *corev1.Pod
		err := f.ask(ctx, func(ctx context.Context) (err error) {
			here, err = f.local.CoreV1().Pods(l.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			return err
		})
		if apierrors.IsNotFound(err) {
			err = errNoPod
		}
		if err != nil || !isMirror(here, l, f.Cluster) {
			return nil, err
		}
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: here.Namespace, Name: here.Name, UID: here.UID}, nil
	}
	return nil, nil
}
