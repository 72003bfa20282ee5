package jobset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
)

// create creates the Jobs that are not there, of the groups whose turn it is.
func (d *decision) create() {
	inOrder := jobset.InOrder(d.js) && !jobset.Suspended(d.js)
	for i := range d.js.Spec.ReplicatedJobs {
		group := &d.js.Spec.ReplicatedJobs[i]
		if !d.reached(group) {
			continue
		}
		if inOrder && d.started(group) {
			continue
		}
		d.createGroup(i)
		if inOrder {
			d.startupInProgress()
			return
		}
	}
	if inOrder {
		d.set(normal, jobsetv1.JobSetStartupPolicyCompleted, metav1.ConditionTrue, "InOrderStartupPolicyCompleted",
			"in order startup policy has completed")
	}
}

func (d *decision) startupInProgress() {
	d.set(normal, jobsetv1.JobSetStartupPolicyInProgress, metav1.ConditionTrue, "InOrderStartupPolicyInProgress",
		"in order startup policy is in progress")
}

// createGroup creates the Jobs of a group that are not there. A name is taken until the Job of the former attempt is gone, with its
// pods; BlockingRecreate waits until all are.
func (d *decision) createGroup(i int) {
	policy := d.js.Spec.FailurePolicy
	left := len(d.r.former) + d.r.departing
	if left > 0 && policy != nil && policy.RestartStrategy == jobsetv1.BlockingRecreate {
		return
	}
	group := &d.js.Spec.ReplicatedJobs[i]
	s := d.r.slotsOf(group.Name)
	missing := int(group.Replicas) - len(s.taken)
	for index := s.from; index < int(group.Replicas) && missing > 0; index++ {
		if s.taken[index] {
			if s.from == index {
				s.from++
			}
			continue
		}
		if d.room <= 0 {
			d.More = true
			return
		}
		d.Create = append(d.Create, New{i, index})
		d.room--
		missing--
	}
}

// reached reports whether the groups that one depends on are as far as it says. A group that depends on one that has not even begun
// waits too.
func (d *decision) reached(group *jobsetv1.ReplicatedJob) bool {
	for _, on := range group.DependsOn {
		replicas, ok := d.replicas[on.Name]
		s := d.r.of(on.Name).status(on.Name)
		if !ok || on.Status == jobsetv1.DependencyComplete && s.Succeeded != replicas ||
			on.Status == jobsetv1.DependencyReady && s.Failed+s.Ready+s.Succeeded != replicas {
			return false
		}
	}
	return true
}

// started reports whether all Jobs of a group have begun, however they have gone on.
func (d *decision) started(group *jobsetv1.ReplicatedJob) bool {
	s := d.r.of(group.Name).status(group.Name)
	return s.Failed+s.Ready+s.Succeeded == group.Replicas
}
