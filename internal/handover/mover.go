package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/batch"
)

// fieldManager names the command among those who write objects.
const fieldManager = "jobctl-move"

// mostSteps is how many steps a move takes at most: others may change the Jobs meanwhile.
const mostSteps = 20

// Mover moves a Job from a jobd to another server, where it has the same name and namespace.
type Mover struct {
	Here, There kubernetes.Interface
	Namespace   string
	Name        string
	To          string // what the other server is called
}

// Jobs returns the Jobs of the name as they are; nil if there is none.
func (m *Mover) Jobs(ctx context.Context) (here, there *batchv1.Job, err error) {
	if here, err = jobOf(ctx, m.Here, m.Namespace, m.Name); err == nil {
		if there, err = jobOf(ctx, m.There, m.Namespace, m.Name); err != nil {
			err = fmt.Errorf("%s: %w", m.To, err)
		}
	}
	return here, there, err
}

func jobOf(ctx context.Context, client kubernetes.Interface, namespace, name string) (*batchv1.Job, error) {
	j, err := client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return j, err
}

// Move moves the Job, or goes on with a move that was interrupted. It returns the Job there.
func (m *Mover) Move(ctx context.Context) (*batchv1.Job, error) {
	var changed error // why a step has to be taken again
	for range mostSteps {
		here, there, err := m.Jobs(ctx)
		if err != nil {
			return nil, err
		}
		step, why := Next(here, there, m.To)
		switch step {
		case Hold:
			err = m.ask(ctx, batch.Move{To: m.To})
		case Make:
			err = m.make(ctx, here)
		case End:
			err = m.end(ctx, here)
		case Free:
			if err = m.free(ctx, there); apierrors.IsInvalid(err) || apierrors.IsConflict(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) {
				changed, err = err, nil // the patch fits no more
			}
		case Release:
			err = m.ask(ctx, batch.Move{Cancel: true})
		case Done:
			return there, why
		}
		if err == nil {
			err = why
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errors.Join(errors.New("somebody else changes the Job again and again: run this once more"), changed)
}

// ErrMade is why a move cannot be cancelled.
var ErrMade = errors.New("it was made there already: run this without --cancel to end it here, or delete it there first")

// Cancel lets a Job go on here that was to be moved.
func (m *Mover) Cancel(ctx context.Context) error {
	here, there, err := m.Jobs(ctx)
	switch {
	case err != nil:
		return err
	case here == nil:
		return errors.New("there is no such Job here")
	case there != nil && isMoved(here, there):
		return ErrMade
	}
	return m.ask(ctx, batch.Move{Cancel: true})
}

// Try has the other server check the Job, which stores nothing, and returns the fields that it would leave out.
func (m *Mover) Try(ctx context.Context, here *batchv1.Job) ([]string, error) {
	sent := Copy(here)
	made, err := m.There.BatchV1().Jobs(m.Namespace).Create(ctx, sent, metav1.CreateOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll},
	})
	if err != nil {
		return nil, fmt.Errorf("%s would refuse it: %w", m.To, err)
	}
	return Left(sent, made)
}

// ask has the jobd here begin or cancel the move.
func (m *Mover) ask(ctx context.Context, ask batch.Move) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	return m.Here.BatchV1().RESTClient().Post().Namespace(m.Namespace).Resource("jobs").Name(m.Name).SubResource("move").
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// make makes the Job there. If the server refuses it, the Job here is held no more; if nobody knows what has become of the request, it is.
func (m *Mover) make(ctx context.Context, here *batchv1.Job) error {
	_, err := m.There.BatchV1().Jobs(m.Namespace).Create(ctx, Copy(here), metav1.CreateOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict,
	})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err): // by an earlier request of this command, or by somebody else: the next step finds out
		return nil
	case Refused(err):
		if failed := m.ask(ctx, batch.Move{Cancel: true}); failed != nil {
			return fmt.Errorf("%s: %w; and the Job here is still held (--cancel lets it go on): %w", m.To, err, failed)
		}
		return fmt.Errorf("%s: %w; the Job goes on here", m.To, err)
	}
	return fmt.Errorf("%s: %w; the Job is held here until it is known what has become of that: run this again, or with --cancel", m.To, err)
}

// Refused reports whether a server has certainly not done what it was asked for.
func Refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

func (m *Mover) end(ctx context.Context, here *batchv1.Job) error {
	background := metav1.DeletePropagationBackground
	err := m.Here.BatchV1().Jobs(m.Namespace).Delete(ctx, m.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &here.UID},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// free takes the finalizer off the Job there, whatever its controller writes meanwhile.
func (m *Mover) free(ctx context.Context, there *batchv1.Job) error {
	at := fmt.Sprintf("/metadata/finalizers/%d", slices.Index(there.Finalizers, batch.MoveFinalizer))
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": there.UID},
		{"op": "test", "path": at, "value": batch.MoveFinalizer},
		{"op": "remove", "path": at},
	})
	if err != nil {
		return err
	}
	_, err = m.There.BatchV1().Jobs(m.Namespace).Patch(ctx, m.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("%s: %w; the Job is there, and here no more: run this again, so that it can be deleted there", m.To, err)
	}
	return nil
}
