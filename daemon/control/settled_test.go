package control

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
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
			if got := newJobRecords(nil, nil, nil).settled(store.Object{Value: value}); got != objects.Done(whole) {
				t.Errorf("%t, want %t", got, objects.Done(whole))
			}
		})
	}
}
