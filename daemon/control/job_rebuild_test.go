package control

import (
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/ttl"
	"github.com/jobd/jobd/store"
)

func TestAGlanceSeesWhetherAPodIsDoneWith(t *testing.T) {
	over := func() *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Labels: map[string]string{"a": "b"}}}
		p.Spec.NodeName = "here"
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		p.Status.Phase = corev1.PodSucceeded
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Reason: "PodSandboxNotReady"},
		}
		return p
	}
	for rule, change := range map[string]func(*corev1.Pod){
		"it is":                                                 func(*corev1.Pod) {},
		"also when it has failed":                               func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"also when it never came to a node":                     func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "", nil },
		"also with somebody's finalizer":                        func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} },
		"not while it runs":                                     func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
		"not while it has something left on the host":           func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionTrue },
		"not while nobody has said that it has nothing left":    func(p *corev1.Pod) { p.Status.Conditions = nil },
		"not until it is counted":                               func(p *corev1.Pod) { p.Finalizers = []string{batchv1.JobTrackingFinalizer} },
		"not when it is being deleted":                          func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Unix(1, 0)) },
		"not when it is being deleted, since the year dot even": func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
	} {
		t.Run(rule, func(t *testing.T) {
			p := over()
			change(p)
			value, err := scheme.Encode(p)
			if err != nil {
				t.Fatal(err)
			}
			whole := &corev1.Pod{}
			if err := scheme.Decode(value, whole); err != nil {
				t.Fatal(err)
			}
			if got := newJobs(nil, job.Settings{}, noLogs{}).settled(store.Object{Value: value}); got != objects.Done(whole) {
				t.Errorf("%t, want %t", got, objects.Done(whole))
			}
		})
	}
}

func TestAGlanceSeesTheEndOfAJob(t *testing.T) {
	for rule, j := range map[string]*batchv1.Job{
		"none":     {},
		"complete": {Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(9, 0)}}}},
		"failed, with a TTL": {Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](0)},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(9, 0)}}}},
		"about to": {Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](9)},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}}},
		"deleted": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.Unix(1, 0))}, Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](9)},
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
			got, gotOK := ttl.Expires(seen)
			want, wantOK := ttl.Expires(j)
			if objects.Finished(seen) != objects.Finished(j) || (seen.DeletionTimestamp == nil) != (j.DeletionTimestamp == nil) || gotOK != wantOK || !got.Equal(want) {
				t.Errorf("seen: finished %t, deleted %v, expires %v %t", objects.Finished(seen), seen.DeletionTimestamp, got, gotOK)
			}
		})
	}
}

func TestAStartFindsWhatIsLeftToDoAmongWhatIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		j, gone := w.finishedJob("j", 5), w.finishedJob("gone", 5)
		held, key := &corev1.Pod{}, store.Key(objects.Pods, "default", "j-3")
		if !w.read(key, held) {
			t.Fatal("no pod j-3")
		}
		held.Finalizers = []string{batchv1.JobTrackingFinalizer}
		w.stop()
		s, err := store.Open(w.path, store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		w.store = s
		w.put(key, held)
		w.write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, gone)); return nil })
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		w.start()
		left := w.pods()
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
		defer w.end()
		const n = 3000
		w.finishedJob("j", n)
		spent := cost(func() {
			c := New(w.control.config)
			if err := c.loop.Rebuild(); err != nil {
				t.Fatal(err)
			}
			if len(c.pods.known)+len(c.jobs.known)+c.pods.dirty.Len() > 0 {
				t.Errorf("records of %d pods and %d Jobs that are done with", len(c.pods.known), len(c.jobs.known))
			}
		})
		if spent > 40*n {
			t.Errorf("%d allocations for each pod", spent/n)
		}
	})
}
