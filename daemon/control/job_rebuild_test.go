package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestAGlanceSeesTheEndOfAJob(t *testing.T) {
	for rule, j := range map[string]*batchv1.Job{
		"none": {},
		"complete": {
			Status: batchv1.JobStatus{
				Conditions: []batchv1.JobCondition{
					{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue},
					{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(9, 0)},
				},
			},
		},
		"failed, with a TTL": {Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](0)},
			Status: batchv1.JobStatus{
				Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(9, 0)}},
			}},
		"about to": {Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](9)},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}}},
		"deleted": {ObjectMeta: metav1.ObjectMeta{
			DeletionTimestamp: ptr.To(metav1.Unix(1, 0)),
		}, Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](9)},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}},
	} {
		t.Run(rule, func(t *testing.T) {
			value, err := scheme.Encode(j)
			if err != nil {
				t.Fatal(err)
			}
			seen := &batchv1.Job{}
			if err := scheme.DecodePart(value, objects.JobEnd, seen); err != nil {
				t.Fatal(err)
			}
			got, gotOK := job.TTL{Failed: time.Hour}.Expires(seen)
			want, wantOK := job.TTL{Failed: time.Hour}.Expires(j)
			if objects.Finished(seen) != objects.Finished(j) || (seen.DeletionTimestamp == nil) != (j.DeletionTimestamp == nil) ||
				gotOK != wantOK || !got.Equal(want) {
				t.Errorf("seen: finished %t, deleted %v, expires %v %t", objects.Finished(seen), seen.DeletionTimestamp, got, gotOK)
			}
		})
	}
}

func TestAStartFindsWhatIsLeftToDoAmongWhatIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j, gone := w.finishedJob("j", 5), w.finishedJob("gone", 5)
		held, key := &corev1.Pod{}, store.Key(objects.Pods, "default", "j-3")
		if !w.Read(key, held) {
			t.Fatal("no pod j-3")
		}
		held.Finalizers = []string{batchv1.JobTrackingFinalizer}
		w.Stop()
		s, err := store.Open(w.Path, store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		w.Store = s
		w.Put(key, held)
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, gone)); return nil })
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		w.Start()
		left := w.Pods()
		if len(left) != 5 {
			t.Errorf("%d pods, want those of the Job that is still there", len(left))
		}
		for _, p := range left {
			if !metav1.IsControlledBy(p, j) || len(p.Finalizers) > 0 {
				t.Errorf("%s: owner %v, finalizers %v", p.Name, p.OwnerReferences, p.Finalizers)
			}
		}
	})
}

func TestAStartReadsLittleOfWhatIsDoneWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		const n = 3000
		w.finishedJob("j", n)
		spent := cost(func() {
			c := control.New(w.Config)
			if err := c.Rebuild(); err != nil {
				t.Fatal(err)
			}
			if c.Records()+c.Dirty() > 0 {
				t.Errorf("%d records of what is done with", c.Records())
			}
		})
		if spent > 40*n {
			t.Errorf("%d allocations for each pod", spent/n)
		}
	})
}
