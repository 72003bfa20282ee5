package jobset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
)

// suspend suspends the Jobs that go on.
func (d *decision) suspend() {
	for i := range d.js.Spec.ReplicatedJobs {
		some, more := d.r.of(d.js.Spec.ReplicatedJobs[i].Name).running.first(d.room)
		d.Suspend = append(d.Suspend, some...)
		d.take(len(some), more)
	}
	d.set(normal, jobsetv1.JobSetSuspended, metav1.ConditionTrue, "SuspendedJobs", "jobset is suspended")
	d.notRestarting("JobSetSuspended", "jobset is suspended")
}

// resume lets the Jobs go on that are suspended, of the groups whose turn it is.
func (d *decision) resume() {
	for i := range d.js.Spec.ReplicatedJobs {
		group := &d.js.Spec.ReplicatedJobs[i]
		if !d.reached(group) || jobset.InOrder(d.js) && d.started(group) {
			continue
		}
		some, more := d.r.of(group.Name).suspended.first(d.room)
		d.Resume = append(d.Resume, some...)
		d.take(len(some), more)
		if jobset.InOrder(d.js) {
			d.startupInProgress()
			return
		}
	}
	d.set(normal, jobsetv1.JobSetSuspended, metav1.ConditionFalse, "ResumeJobs", "jobset is resumed")
}
