package control_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
)

// unknown is an owner of a kind that is not served: the collector leaves alone what it owns.
var unknown = metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "X", Name: "x", UID: "x"}

// Whoever can make pods in one namespace has no part in the Jobs of another: neither at once nor after a restart.
func TestPodsOfOtherNamespacesAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Create(controltest.Simulate("mine", "1h", "0"))
		mine := w.Job("mine")
		for i, tc := range []struct {
			namespace, owner string
			phase            corev1.PodPhase
		}{{"other", "mine", corev1.PodSucceeded}, {"other", "mine", corev1.PodFailed}, {"default", "another", corev1.PodSucceeded}} {
			p := &corev1.Pod{}
			p.Namespace, p.Name, p.UID = tc.namespace, fmt.Sprint("stranger-", i), types.UID(fmt.Sprint("uid-", i))
			p.CreationTimestamp = metav1.Now()
			p.Finalizers = []string{batchv1.JobTrackingFinalizer}
			p.Labels = mine.Spec.Template.Labels
			p.Spec = mine.Spec.Template.Spec
			p.Status.Phase = tc.phase
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(mine, batchv1.SchemeGroupVersion.WithKind("Job"))}
			p.OwnerReferences[0].Name = tc.owner
			p.OwnerReferences = append(p.OwnerReferences, unknown)
			w.Put(objects.Key(objects.Pods, p), p)
		}
		wait := func(when string) {
			synctest.Wait()
			time.Sleep(time.Minute)
			if j := w.Job("mine"); j == nil || j.Status.Active != 1 || j.Status.Succeeded+j.Status.Failed != 0 || len(j.Status.Conditions) > 0 {
				t.Errorf("%s: %+v", when, j.Status)
			}
		}
		wait("at once")
		w.Stop()
		w.Start()
		wait("after a restart")
	})
}

// The same holds for the Jobs of a CronJob.
func TestJobsOfOtherNamespacesAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		one := int32(1)
		cj := w.CreateCronJob("hourly", "0 * * * *", "1s", func(cj *batchv1.CronJob) { cj.Spec.SuccessfulJobsHistoryLimit = &one })
		time.Sleep(61 * time.Minute)
		before, success := w.JobNames(), w.CronJob("hourly").Status.LastSuccessfulTime
		for _, name := range []string{"a", "b"} {
			j := controltest.Simulate(name, "0s", "0")
			j.Namespace = "other"
			j.CreationTimestamp = metav1.Now()
			j.UID = types.UID(name)
			j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cj, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
			j.OwnerReferences = append(j.OwnerReferences, unknown)
			j.Status.CompletionTime = &metav1.Time{Time: time.Now()}
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			w.Put(objects.Key(objects.Jobs, j), j)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if after := w.JobNames(); len(before) == 0 || len(after) < len(before) {
			t.Errorf("%v became %v", before, after)
		}
		if got := w.CronJob("hourly"); !got.Status.LastSuccessfulTime.Equal(success) {
			t.Errorf("the last success is %v", got.Status.LastSuccessfulTime)
		}
	})
}
