package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/podspec"
)

// errNoJob: of two watches the one of pods may be ahead. After some tries the pod is none of ours.
var errNoJob = errors.New("the Job of the pod is not known yet")

const jobTries = 5

// syncPod lets the pod here be as the one there.
func (f *Forwarder) syncPod(ctx context.Context, k key) error {
	there, ok := f.remotePods.get(k.namespace, k.name).(*corev1.Pod)
	if !ok {
		f.logs.forget(k)
		return f.podGone(ctx, k)
	}
	l, r := f.jobsOf(there)
	if r == nil && f.queue.NumRequeues(k) < jobTries {
		return errNoJob
	}
	if l == nil || finished(l) {
		return nil
	}
	whole, err := f.show(ctx, l, there, k)
	if whole && finished(r) { // which waits for that, see settle
		f.queue.Add(key{ofJob, l.Namespace, l.Name})
	}
	return err
}

// show lets the pod here be as the one there: what its containers have printed before it is said that they have ended. It reports whether
// that was said.
func (f *Forwarder) show(ctx context.Context, l *batchv1.Job, there *corev1.Pod, k key) (whole bool, err error) {
	over := hasEnded(there)
	here, err := f.mirror(ctx, l, there, !over)
	if err != nil {
		return false, err
	}
	if whole = f.bringLogs(ctx, here, there, k); whole && over {
		_, err = f.mirror(ctx, l, there, true)
	}
	return whole && err == nil, err
}

// jobsOf returns the Jobs, here and there, of a pod there; nil unless both are known, and the one was made of the other.
func (f *Forwarder) jobsOf(there *corev1.Pod) (l, r *batchv1.Job) {
	owner := metav1.GetControllerOfNoCopy(there)
	if owner == nil {
		return nil, nil
	}
	r, ok := f.remoteJobs.get(there.Namespace, owner.Name).(*batchv1.Job)
	if !ok || r.UID != owner.UID {
		return nil, nil
	}
	l = f.forwardedTo(r.Namespace, r.Name)
	if l == nil || !(Seen{Local: l, Remote: r, Origin: f.origin}).mine() {
		return nil, nil
	}
	return l, r
}

// forwardedTo returns the Job here whose Job there has a namespace and a name, or is to; nil if there is none. Who may write objects there
// has no say in this.
func (f *Forwarder) forwardedTo(namespace, name string) *batchv1.Job {
	for _, from := range f.from(namespace) {
		if l := f.localJob(from, name); l != nil && f.there(l) == namespace {
			return l
		}
	}
	return nil
}

// mirror makes the pod here of one there, and gives it its status, if that is wanted.
func (f *Forwarder) mirror(ctx context.Context, l *batchv1.Job, there *corev1.Pod, status bool) (here *corev1.Pod, err error) {
	err = f.ask(ctx, func(ctx context.Context) (err error) {
		pods := f.local.CoreV1().Pods(l.Namespace)
		here, err = pods.Get(ctx, there.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && l.DeletionTimestamp == nil {
			here, err = pods.Create(ctx, Mirror(l, there, f.Cluster), metav1.CreateOptions{FieldManager: fieldManager})
		}
		switch {
		case err != nil:
			return err
		case !isMirror(here, l, f.Cluster):
			return fmt.Errorf("pod %s/%s is none of the cluster %s, whose pod of that name is not shown", here.Namespace, here.Name, f.Cluster)
		}
		if out, differs := mirrored(here, there); differs && status {
			here, err = pods.UpdateStatus(ctx, out, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		return err
	})
	return here, err
}

// endedThere reports whether a Job has ended as the one there has, and not because that was removed.
func endedThere(l *batchv1.Job) bool {
	end := batch.End(&l.Status)
	return end != nil && end.Reason != clusters.ReasonRemoteJobDeleted
}

// podGone removes the pod here of one that is gone there, unless its Job has ended: then it is left, as those of other Jobs are. One that was
// orphaned is left if it has ended.
func (f *Forwarder) podGone(ctx context.Context, k key) error {
	for _, namespace := range f.from(k.namespace) {
		err := f.ask(ctx, func(ctx context.Context) error {
			pods := f.local.CoreV1().Pods(namespace)
			here, err := pods.Get(ctx, k.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if owner := metav1.GetControllerOfNoCopy(here); owner != nil {
				l := f.localJob(namespace, owner.Name)
				if l == nil || endedThere(l) || !isMirror(here, l, f.Cluster) || f.there(l) != k.namespace {
					return nil
				}
			} else if !shows(here, f.Cluster) || podspec.Ended(here) {
				return nil
			}
			return pods.Delete(ctx, here.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &here.UID}})
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// from returns the namespaces here whose Jobs may be in one of the cluster.
func (f *Forwarder) from(there string) (all []string) {
	if f.Namespaces == nil {
		return []string{there}
	}
	for from, to := range f.Namespaces {
		if to == there {
			all = append(all, from)
		}
	}
	return all
}

// settleTime is how long it is tried in vain to bring back more of what is known of the pods of a Job that has ended. After that it ends here
// without.
const settleTime = 2 * time.Minute

// settle brings back the pods of a Job that has ended there, before it ends here. It returns why some are lost, and err as long as
// it is to be tried again.
func (f *Forwarder) settle(ctx context.Context, l, r *batchv1.Job) (lost, err error) {
	last := f.now().Sub(f.settling.since(l, f.now())) >= settleTime
	left, err := f.settlePods(ctx, l, r, last)
	if err != nil && !last {
		if errors.Is(err, errTurn) {
			f.settling.waits(l, f.now())
		}
		f.settling.left(l, left, f.now())
		return nil, err
	}
	return err, nil
}

// settlePods lets the pods here be as those there, as far as it can. At last it is said how they have ended, even if their logs are lost. It
// returns of how many something is left to be brought.
func (f *Forwarder) settlePods(ctx context.Context, l, r *batchv1.Job, last bool) (left int, err error) {
	var list *corev1.PodList
	err = f.ask(ctx, func(ctx context.Context) (err error) {
		list, err = f.remote.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.ControllerUidLabel + "=" + string(r.UID)})
		return err
	})
	if err != nil {
		return math.MaxInt, err
	}
	there := map[string]bool{}
	var failed error
	waits := false
	for i := range list.Items {
		p := &list.Items[i]
		if !metav1.IsControlledBy(p, r) { // somebody has given it the label
			continue
		}
		there[p.Name] = true
		whole, err := f.show(ctx, l, p, key{ofJob, l.Namespace, l.Name})
		if err == nil && !whole && last {
			_, err = f.mirror(ctx, l, p, true)
		}
		failed = cmp.Or(failed, err)
		if !whole {
			left++
			waits = waits || f.logs.waits(podKey(p), f.now().Add(-settleTime))
		}
	}
	switch err := cmp.Or(failed, f.removePods(ctx, l, there)); {
	case err != nil || left == 0:
		return left, err
	case waits:
		return left, errTurn
	}
	return left, errLogs
}

// removePods removes the pods here that show none of the cluster any more.
func (f *Forwarder) removePods(ctx context.Context, l *batchv1.Job, there map[string]bool) error {
	return f.ask(ctx, func(ctx context.Context) error {
		pods := f.local.CoreV1().Pods(l.Namespace)
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: batchv1.ControllerUidLabel + "=" + string(l.UID)})
		if err != nil {
			return err
		}
		for i := range list.Items {
			p := &list.Items[i]
			if there[p.Name] || !isMirror(p, l, f.Cluster) {
				continue
			}
			err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// errLogs: they are being brought. errTurn: those of others are, and theirs after that.
var (
	errLogs = errors.New("not all that its pods have printed was brought here yet")
	errTurn = fmt.Errorf("%w: many logs are", errLogs)
)

// settling knows since when it is tried in vain to bring back more of the pods of Jobs.
type settling struct {
	mu   sync.Mutex
	from map[key]begun
}

type begun struct {
	uid  types.UID
	at   time.Time
	left int // pods of which something is left to be brought
}

func (s *settling) since(l *batchv1.Job, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{ofJob, l.Namespace, l.Name}
	if b, ok := s.from[k]; ok && b.uid == l.UID {
		return b.at
	}
	if s.from == nil {
		s.from = map[key]begun{}
	}
	s.from[k] = begun{l.UID, now, math.MaxInt}
	return now
}

// left takes in of how many pods something is left to be brought.
func (s *settling) left(l *batchv1.Job, n int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{ofJob, l.Namespace, l.Name}
	if b, ok := s.from[k]; ok && n < b.left {
		s.from[k] = begun{b.uid, now, n}
	}
}

// waits takes in that a Job waits for others: it is not tried in vain.
func (s *settling) waits(l *batchv1.Job, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{ofJob, l.Namespace, l.Name}
	if b, ok := s.from[k]; ok {
		s.from[k] = begun{b.uid, now, b.left}
	}
}

// forget forgets a Job that is gone.
func (s *settling) forget(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.from, k)
}
