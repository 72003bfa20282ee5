package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/runtime/archive"
)

// ClaimFiles finds the files of claims.
type ClaimFiles interface {
	// Files returns the directory with the files of a claim.
	Files(ctx context.Context, claim *corev1.PersistentVolumeClaim) (dir string, err error)
}

// claimFiles is the subresource persistentvolumeclaims/files, which is jobd's own: GET returns what is at ?path= of a claim
// as a tar archive, PUT takes one, as runtime/archive describes them. No pod is needed for that.
type claimFiles struct {
	claims *registry.Store
	files  ClaimFiles // nil: there are none
	logger *slog.Logger
}

var _ rest.Connecter = claimFiles{}

func (claimFiles) New() apiruntime.Object   { return &corev1.PersistentVolumeClaim{} }
func (claimFiles) Destroy()                 {}
func (claimFiles) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPut} }

func (claimFiles) NewConnectOptions() (apiruntime.Object, bool, string) { return nil, false, "" }

func (c claimFiles) Connect(ctx context.Context, name string, _ apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	obj, err := c.claims.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	claim := obj.(*corev1.PersistentVolumeClaim)
	if c.files == nil {
		return nil, apierrors.NewBadRequest("this daemon runs no containers, and claims have no files")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.serve(w, r, claim); err != nil {
			responder.Error(filesError("persistentvolumeclaims", err))
		}
	}), nil
}

// serve returns an error if nothing was answered yet.
func (c claimFiles) serve(w http.ResponseWriter, r *http.Request, claim *corev1.PersistentVolumeClaim) error {
	dir, err := c.files.Files(r.Context(), claim)
	if err != nil {
		return err
	}
	tree, err := archive.Open(dir)
	if err != nil {
		return err
	}
	defer tree.Close()
	query := r.URL.Query()
	path := query.Get("path")
	if r.Method == http.MethodPut {
		if err := tree.Read(r.Context(), r.Body, path, query.Get("name")); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err := tree.Check(path); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if err := tree.Write(r.Context(), w, path); err != nil {
		if r.Context().Err() == nil {
			c.logger.Warn("cannot copy all files of a claim", "namespace", claim.Namespace, "claim", claim.Name, "error", err)
		}
		panic(http.ErrAbortHandler) // the client must not take what it has for the whole
	}
	return nil
}

// filesError returns an error about the files of a resource's object for clients.
func filesError(resource string, err error) error {
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
	status := apierrors.NewGenericServerResponse(code, "get", corev1.Resource(resource), "", "", 0, false)
	status.ErrStatus.Message = err.Error()
	return status
}
