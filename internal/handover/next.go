package handover

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
)

// Step is what a move does next.
type Step string

// The steps, in their order. Each leaves behind by what the next one is known, so a move that was interrupted goes on where it was.
const (
	Hold Step = "hold" // the Job here: from then on no pod of it is bound
	Make Step = "make" // the Job there, with a finalizer, so that it cannot be gone before the one here is
	End  Step = "end"  // the Job here
	Free Step = "free" // the Job there of the finalizer
	Done Step = "done"
	// Release the Job here, since the other one cannot be made.
	Release Step = "release"
)

// Next decides what a move does next, by the Jobs of the name as they are; nil if there is none. The error is why the Job cannot be moved;
// with Release it is to be held no more first.
func Next(here, there *batchv1.Job, to string) (Step, error) {
	moving := held(here)
	// Nothing of a Job that was held and is being deleted ever runs: something else holds the object.
	ended := here == nil || here.DeletionTimestamp != nil && moving != nil
	switch {
	case here != nil && there != nil && here.UID == there.UID:
		return Done, fmt.Errorf("%s is the server from which the Job is to be moved", to)
	case ended && there == nil:
		return Done, fmt.Errorf("there is no such Job, neither here nor in %s", to)
	case ended && !isMoved(here, there):
		return Done, fmt.Errorf("there is no such Job here, and the one in %s was not moved", to)
	case ended && slices.Contains(there.Finalizers, batch.MoveFinalizer):
		return Free, nil
	case ended:
		return Done, nil
	case moving != nil && moving.To != to:
		return Done, fmt.Errorf("it is being moved to %s: finish that, or cancel it (--cancel)", moving.To)
	case there != nil && !isMoved(here, there):
		err := fmt.Errorf("%s has another Job of this name: delete that, or wait until it is gone", to)
		if moving != nil {
			return Release, err
		}
		return Done, err
	case moving == nil:
		return Hold, nil
	case there == nil:
		return Make, nil
	}
	return End, nil
}

func held(j *batchv1.Job) *batch.Moving {
	if j == nil {
		return nil
	}
	return batch.MovingOf(j.Annotations)
}

// isMoved reports whether a Job there was made of the one here or, if that is gone, of any.
func isMoved(here, there *batchv1.Job) bool {
	from := there.Annotations[batch.MovedFromAnnotation]
	return from != "" && (here == nil || from == string(here.UID))
}

// Copy returns the Job that is made elsewhere.
func Copy(j *batchv1.Job) *batchv1.Job {
	c := Manifest(j)
	c.Finalizers = []string{batch.MoveFinalizer}
	delete(c.Annotations, batch.MovingAnnotation)
	c.Annotations[batch.MovedFromAnnotation] = string(j.UID)
	suspend := suspended(j.Spec.Suspend, held(j))
	c.Spec.Suspend = &suspend
	return c
}

// Manifest returns what was asked for with a Job, without what this server has added.
func Manifest(j *batchv1.Job) *batchv1.Job {
	c := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: j.Name, Namespace: j.Namespace, Labels: maps.Clone(j.Labels), Annotations: map[string]string{},
	}}
	maps.Copy(c.Annotations, j.Annotations)
	delete(c.Annotations, lastApplied)
	j.Spec.DeepCopyInto(&c.Spec)
	if j.Spec.ManualSelector == nil || !*j.Spec.ManualSelector {
		c.Spec.Selector, c.Spec.ManualSelector = nil, nil
		for _, name := range generated {
			delete(c.Spec.Template.Labels, name)
			delete(c.Labels, name) // which a Job has from its template
		}
	}
	return c
}

// generated are the labels that every Job gives its pods.
var generated = []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name"}

// lastApplied is what kubectl apply compares with: the object there was not applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
