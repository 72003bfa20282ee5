package storage

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/store"
)

// The messages of Kubernetes' own storage about versions that are too old. Clients show these sentences to people, and
// some look for them.
const (
	listExpired     = "The resourceVersion for the provided list is too old."
	watchExpired    = "The resourceVersion for the provided watch is too old."
	continueExpired = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
)

// interpret converts an error of the store into an error of the API; other errors are returned unchanged.
func interpret(key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrFull):
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusInsufficientStorage,
			Reason:  metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("%s was not written: %v", key, err),
		}}
	case errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable("jobd is stopping: " + err.Error())
	case errors.Is(err, store.ErrInvalid):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, store.ErrCorrupt):
		return apierrors.NewInternalError(fmt.Errorf("%s: %w", key, err))
	case errors.Is(err, context.DeadlineExceeded):
		return storage.NewTimeoutError(key, "request did not complete within requested timeout")
	}
	return err
}

func badVersion(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
}

// expiredPage is the answer to a continue token whose version is gone: it carries a token that goes on with what is
// there now, for clients that can live with that.
func expiredPage(continueKey, prefix string) error {
	token, err := storage.EncodeContinue(continueKey, prefix, -1)
	if err != nil {
		return apierrors.NewResourceExpired(listExpired)
	}
	status := apierrors.NewResourceExpired(continueExpired)
	status.ErrStatus.ListMeta.Continue = token
	return status
}

// unreadableDeletion is what a watcher gets of a deletion whose last state cannot be decoded.
func unreadableDeletion(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Message: fmt.Sprintf("saw a DELETED event, but object data is corrupt - %v", err),
	}}
}
