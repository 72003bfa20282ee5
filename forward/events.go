package forward

import (
	"context"
	"errors"
	"strings"
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
func (f *Forwarder) postpone(e arrival) bool {
	select {
	case f.postponed <- struct{}{}:
	default:
		return false
	}
	time.AfterFunc(eventRetry, func() {
		<-f.postponed
		eventSink{f.events, f.now}.hand(e)
	})
	return true
}

// copyEvents copies events of the cluster until ctx ends. How long they wait, the clock here says.
func (f *Forwarder) copyEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-f.events:
			if wait := eventDelay - f.now().Sub(e.at); wait > 0 {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
			}
			err := f.copyEvent(ctx, e.Event)
			if errors.Is(err, errNotYet) && (f.now().Sub(e.at) >= eventPatience || f.postpone(e)) {
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

// errNotYet: of several watches the one of events may be ahead.
var errNotYet = errors.New("what it is about is not known here yet")

// subject returns what an event there is about here; nil if it is none of ours.
func (f *Forwarder) subject(ctx context.Context, e *corev1.Event) (*corev1.ObjectReference, error) {
	switch on := e.InvolvedObject; on.Kind {
	case "Job":
		l := f.forwardedTo(on.Namespace, on.Name)
		if l == nil {
			return nil, nil
		}
		switch record := clusters.RecordOf(l); {
		case record == nil || record.UID == "":
			return nil, errNotYet
		case record.UID != on.UID: // as its predecessor, or what has had its name there
			return nil, nil
		}
		about := jobReference(l)
		return &about, nil
	case "Pod":
		p, ok := f.remotePods.get(on.Namespace, on.Name).(*corev1.Pod)
		if ok && p.UID != on.UID {
			return nil, nil
		}
		var l *batchv1.Job
		if ok {
			l, _ = f.jobsOf(p)
		}
		switch {
		case l == nil && f.mayBeOurs(on.Namespace, on.Name):
			return nil, errNotYet
		case l == nil:
			return nil, nil
		}
		var here *corev1.Pod
		err := f.ask(ctx, func(ctx context.Context) (err error) {
			here, err = f.local.CoreV1().Pods(l.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			return err
		})
		if apierrors.IsNotFound(err) {
			err = errNotYet
		}
		if err != nil || !isMirror(here, l, f.Cluster) {
			return nil, err
		}
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: here.Namespace, Name: here.Name, UID: here.UID}, nil
	}
	return nil, nil
}

// mayBeOurs reports whether a pod has the name of one of a Job that is forwarded, NAME-RANDOM or NAME-INDEX-RANDOM: that of a Job with a very
// long name is cut.
func (f *Forwarder) mayBeOurs(namespace, pod string) bool {
	for range 2 {
		i := strings.LastIndexByte(pod, '-')
		if i < 0 {
			return false
		}
		if pod = pod[:i]; f.forwardedTo(namespace, pod) != nil {
			return true
		}
	}
	return false
}
