// Package transfer copies files out of and into pods and claims, as tar archives: the subresources pods/files and
// persistentvolumeclaims/files, which are jobd's own.
package transfer

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/containerd/errdefs"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/runtime/archive"
)

// filesOf is the subresource files of a resource, which is jobd's own: GET returns what is at ?path= as a tar archive, PUT takes
// one, as runtime/archive describes them.
type filesOf[T apiruntime.Object] struct {
	objects *registry.Store
	// permit refuses objects whose files the client of a request may not see.
	permit func(context.Context, T) error
	// serve returns an error if nothing was answered yet.
	serve func(http.ResponseWriter, *http.Request, T) error
}

func (f filesOf[T]) New() apiruntime.Object { return f.objects.New() }
func (filesOf[T]) Destroy()                 {}
func (filesOf[T]) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPut} }

func (filesOf[T]) NewConnectOptions() (apiruntime.Object, bool, string) { return nil, false, "" }

func (f filesOf[T]) Connect(ctx context.Context, name string, _ apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	obj, err := f.objects.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if err := f.permit(ctx, obj.(T)); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f.serve(w, r, obj.(T)); err != nil {
			responder.Error(filesError(f.objects.DefaultQualifiedResource, err))
		}
	}), nil
}

// errNoFiles says that nothing has files where containers are only simulated.
var errNoFiles = errors.New("this daemon runs no containers, so there are no files")

// sendFiles answers with what is at a path in a directory. It returns an error if nothing was answered yet.
func sendFiles(w http.ResponseWriter, r *http.Request, dir, path string, logger *slog.Logger) error {
	tree, err := archive.Open(dir)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := tree.Check(path); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if err := tree.Write(r.Context(), w, path); err != nil {
		cutOff(r, logger, err)
	}
	return nil
}

// cutOff ends an answer of which a part was sent, since the client must not take that for the whole. It does not return.
func cutOff(r *http.Request, logger *slog.Logger, err error) {
	if r.Context().Err() == nil {
		logger.Warn("cannot copy all files", "error", err)
	}
	panic(http.ErrAbortHandler)
}

// filesError returns an error about the files of a resource's object for clients.
func filesError(of schema.GroupResource, err error) error {
	var code int
	switch {
	case errors.Is(err, fs.ErrNotExist), errdefs.IsNotFound(err):
		code = http.StatusNotFound
	case errdefs.IsResourceExhausted(err):
		code = http.StatusInsufficientStorage
	case errdefs.IsInternal(err), errdefs.IsUnavailable(err):
		return apierrors.NewInternalError(err)
	default:
		return apierrors.NewBadRequest(err.Error())
	}
	status := apierrors.NewGenericServerResponse(code, "get", of, "", "", 0, false)
	status.ErrStatus.Message = err.Error()
	return status
}
