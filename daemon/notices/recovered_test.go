package notices

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/loop"
)

// A Job that was there at the start and is gone before it was looked at is forgotten.
func TestAJobThatIsGoneBeforeItIsLookedAt(t *testing.T) {
	teller := NewTeller(&loop.Timers{}, nil)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "j", UID: "u",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "c", Controller: ptr.To(true)}},
	}}
	teller.JobRecovered("jobs.batch/a/j", j)
	if !teller.Dirty() {
		t.Fatal("it is not to be looked at")
	}
	teller.JobGone(nil, "jobs.batch/a/j", j)
	if _, err := teller.Settle(nil); err != nil || teller.Dirty() {
		t.Errorf("it is still to be looked at: %v", err)
	}
}
