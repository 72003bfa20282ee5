package control_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
)

func TestPodsThatAreTakenFromTheirJob(t *testing.T) {
	for rule, tc := range map[string]struct {
		change func(*corev1.Pod)
		back   bool // it is the Job's again
	}{
		"one without an owner is taken back": {func(p *corev1.Pod) { p.OwnerReferences = nil }, true},
		"one that is given to somebody else is replaced": {func(p *corev1.Pod) {
			p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind, p.OwnerReferences[0].UID = "apps/v1", "ReplicaSet", "other"
		}, false},
		"one without an owner and the labels is let go": {func(p *corev1.Pod) { p.OwnerReferences, p.Labels = nil, nil }, false},
	} {
		for name, restart := range map[string]bool{"": false, ", also by a daemon that has not seen it": true} {
			t.Run(rule+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					defer w.End()
					w.Create(controltest.Simulate("j", "10s", "0"))
					p := w.Pods()[0]
					tc.change(p)
					w.Put(objects.Key(objects.Pods, p), p)
					if restart {
						w.Stop()
						w.Start()
					}
					i := slices.IndexFunc(w.Pods(), func(q *corev1.Pod) bool { return q.UID == p.UID })
					if p = w.Pods()[i]; metav1.IsControlledBy(p, w.Job("j")) != tc.back {
						t.Errorf("its owners are %v", p.OwnerReferences)
					}
					time.Sleep(time.Minute)
					if got := w.Job("j"); !objects.Finished(got) || got.Status.Succeeded != 1 {
						t.Errorf("%+v", got.Status)
					}
				})
			})
		}
	}
}

func TestAPodThatNoJobCountsIsHeldByNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "default", UID: uuid.NewUUID(), Finalizers: []string{batchv1.JobTrackingFinalizer, "example.com/other"},
			Labels: map[string]string{batchv1.ControllerUidLabel: "one that is gone"},
		}}
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		w.Put(objects.Key(objects.Pods, p), p)
		if got := w.Pods()[0].Finalizers; !slices.Equal(got, []string{"example.com/other"}) {
			t.Errorf("finalizers %v", got)
		}
	})
}
