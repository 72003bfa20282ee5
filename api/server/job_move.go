package server

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// newJobMove serves POST .../jobs/NAME/move, which is jobd's own: a Job is held so that it can be made elsewhere (batch.MoveJob). That no
// pod of it was bound is asked in the transaction that holds it: after that none is.
func newJobMove(
	jobs *registry.Store, admits admission.ValidationInterface, begun func(*store.Snapshot, *batchv1.Job) (bool, error),
) jobChange[batch.Move] {
	unbegun := func(s *store.Snapshot, obj runtime.Object) error {
		j := obj.(*batchv1.Job)
		if batch.MovingOf(j.Annotations) == nil || begun == nil {
			return nil
		}
		yes, err := begun(s, j)
		if err == nil && yes {
			err = apierrors.NewConflict(batchv1.Resource("jobs"), j.Name, errors.New(batch.HasBegun))
		}
		return err
	}
	return jobChange[batch.Move]{
		jobs: jobs, admits: admits, what: "a move",
		within: func(ctx context.Context) context.Context { return storage.Checking(ctx, unbegun) },
		apply:  func(_ context.Context, j *batchv1.Job, ask batch.Move) error { return batch.MoveJob(j, ask) },
	}
}
