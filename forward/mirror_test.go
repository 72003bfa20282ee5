package forward

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/jobd/jobd/api/clusters"
)

// A pod that cannot be shown, since another has its name here, keeps none of the others from being shown before their Job ends.
func TestOnePodThatCannotBeShown(t *testing.T) {
	l := here(made)
	r := there(l, ended)
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: "there", Labels: map[string]string{batchv1.ControllerUidLabel: string(r.UID)},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, batchv1.SchemeGroupVersion.WithKind("Job"))},
			},
			Status: corev1.PodStatus{Phase: corev1.PodFailed},
		}
	}
	f := cluster(l, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	foreign := pod("c") // which somebody has given the labels of the Job's pods
	foreign.OwnerReferences = nil
	f.remote, f.logs = fake.NewClientset(pod("a"), pod("b"), foreign), newLogging()
	if left, err := f.settlePods(t.Context(), l, r, true); err == nil || left != 1 {
		t.Error("nothing is said of the one that is not shown")
	}
	b, err := f.local.CoreV1().Pods("default").Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil || b.Status.Phase != corev1.PodFailed {
		t.Errorf("the other one: %v, %v", b, err)
	}
	if _, err := f.local.CoreV1().Pods("default").Get(t.Context(), "c", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("one that the Job does not control is shown: %v", err)
	}
}

// A Job with many pods ends only here when all have been brought, however long that takes.
func TestSettling(t *testing.T) {
	var s settling
	l := here(made)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	for i, c := range []struct{ left, want int }{{10, 0}, {10, 0}, {9, 0}, {math.MaxInt, 2}, {9, 2}, {3, 2}, {3, 5}} {
		if since := s.since(l, at(i)); !since.Equal(at(c.want)) {
			t.Errorf("after %d minutes: tried in vain since %v", i, since)
		}
		s.left(l, c.left, at(i))
	}
	if s.waits(l, at(8)); !s.since(l, at(9)).Equal(at(8)) {
		t.Error("it was in vain while it waited for others")
	}
	if since := s.since(here(uid("other")), at(9)); !since.Equal(at(9)) {
		t.Errorf("another Job: %v", since)
	}
}

// A Job that has ended waits for what its pods have printed. It is looked at when that has come, and not again and again before: of a thousand
// such Jobs that would take longer than all logs.
func TestAJobWaitsForLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := here(made)
		r := there(l, ended)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "p", UID: "pod", Labels: map[string]string{batchv1.ControllerUidLabel: string(r.UID)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, batchv1.SchemeGroupVersion.WithKind("Job"))},
		}}
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ContainerID: "x://y", ExitCode: 1},
		}}}
		f := cluster(l)
		f.remote, f.logs = fake.NewClientset(p), newLogging()
		f.retry = workqueue.NewTypedItemExponentialFailureRateLimiter[key](firstRetry, refusedRetry)
		defer f.queue.ShutDown()
		for of, object := range map[*stores]any{&f.localJobs: l, &f.remoteJobs: r, &f.remotePods: p} {
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			if err := store.Add(object); err != nil {
				t.Fatal(err)
			}
			*of = stores{metav1.NamespaceAll: store}
		}
		log, job := logKey{p.UID, "c", 0}, key{ofJob, "default", "j"}
		f.logs.begin(podKey(p), log) // it is being brought
		if err := f.syncPod(t.Context(), podKey(p)); err != nil || f.queue.Len() > 0 {
			t.Errorf("%v: before it has come %d are looked at", err, f.queue.Len())
		}
		err := f.bring(t.Context(), l, r)
		if !errors.Is(err, errLogs) || errors.Is(err, errTurn) {
			t.Errorf("it is brought: %v", err)
		}
		f.again(job, err)
		if time.Sleep(lastRetry / 2); f.queue.Len() > 0 {
			t.Error("it is looked at while its log is being brought")
		}
		f.logs.waitsForTurn(podKey(p), log)
		f.logs.hasTurn(key{ofPod, "default", "other"}, log, now)
		if err := f.bring(t.Context(), l, r); !errors.Is(err, errTurn) || !errors.Is(err, errLogs) {
			t.Errorf("it waits for others: %v", err)
		}
		f.now = func() time.Time { return now.Add(settleTime) }
		if err := f.bring(t.Context(), l, r); errors.Is(err, errTurn) {
			t.Errorf("none has had its turn for long: %v", err)
		}
		f.logs.end(podKey(p), log, true, nil)
		if err := f.syncPod(t.Context(), podKey(p)); err != nil {
			t.Error(err)
		}
		if f.queue.Len() == 0 {
			t.Fatal("it is not looked at when its log has come")
		}
		if k, _ := f.queue.Get(); k != job {
			t.Errorf("this is looked at: %v", k)
		}
	})
}

// The pods of a Job that was deleted with --cascade=orphan run there no more, and are not shown as if they did.
func TestOrphans(t *testing.T) {
	pod := func(name, node string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{NodeName: node, SchedulerName: clusters.Scheduler(node)}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	f := cluster(pod("runs", "prod", corev1.PodRunning), pod("ended", "prod", corev1.PodSucceeded), pod("other", "test", corev1.PodRunning))
	for name, stays := range map[string]bool{"runs": false, "ended": true, "other": true, "none": false} {
		if err := f.podGone(t.Context(), key{ofPod, "default", name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.local.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{}); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}
