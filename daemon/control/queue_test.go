package control

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
)

// What is done with the pods of one Job reaches all of them, and looks at no others: the records of those are missing here.
func TestTheOtherPodsOfTheMachineAreNotLookedAt(t *testing.T) {
	labels := map[string]string{"job": "j"}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "j"}}
	j.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	of := &jobRecord{Record: job.NewRecord(j, nil), key: "jobs/n/j", ahead: time.Unix(1000, 0)}
	pods := newPodRecords(nil, nil)
	q := newQueue(pods, node.New(10, nil), "node", nil, nil, nil, nil)
	own := []types.UID{"a", "b"}
	for _, uid := range own {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: string(uid), UID: uid, Labels: labels}}
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
		of.SetPod(job.Summarize(p))
		pods.known[uid] = &podRecord{key: "pods/n/" + string(uid), job: of, request: q.requestOf(p, nil)}
	}
	for _, uid := range []types.UID{"of another Job", "of none"} {
		pods.known[uid] = nil
	}

	q.pausedOrContinued(of)
	q.reorder(of)
	for _, uid := range own {
		if rec := pods.known[uid]; !rec.moved || rec.request.Ahead != of.ahead.UnixNano() {
			t.Errorf("%s was not reached: %+v", uid, rec)
		}
	}
	if n := pods.dirty.Len(); n != len(own) {
		t.Errorf("%d pods are looked at after a pause", n)
	}
	pods.dirty.Settle(func(string) error { return nil })
	pods.dirty.Settle(func(string) error { return nil })
	q.lookAgain(of)
	if n := pods.dirty.Len(); n != len(own) {
		t.Errorf("%d pods are looked at again", n)
	}
}
