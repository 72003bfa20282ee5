package transfer

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/jobd/jobd/runtime/archive"
)

// ClaimFiles finds the files of claims.
type ClaimFiles interface {
	// Files returns the directory with the files of a claim.
	Files(ctx context.Context, claim *corev1.PersistentVolumeClaim) (dir string, err error)
}

// claimFiles is the subresource persistentvolumeclaims/files. No pod is needed for that.
type claimFiles struct {
	files  ClaimFiles // nil: there are none
	logger *slog.Logger
	// objects are the claims, and node is the name of this machine, for claims that have no volume yet.
	objects *registry.Store
	node    string
}

// boundWithin is how long a claim may take to get its volume before files are written into it.
const boundWithin = 20 * time.Second

// NewClaimFiles makes the subresource. node is the name of this machine.
func NewClaimFiles(claims *registry.Store, files ClaimFiles, node string, logger *slog.Logger) rest.Storage {
	everybody := func(context.Context, *corev1.PersistentVolumeClaim) error { return nil }
	return filesOf[*corev1.PersistentVolumeClaim]{claims, everybody, claimFiles{files, logger, claims, node}.serve}
}

func (c claimFiles) serve(w http.ResponseWriter, r *http.Request, claim *corev1.PersistentVolumeClaim) error {
	if c.files == nil {
		return errNoFiles
	}
	dir, err := c.files.Files(r.Context(), claim)
	if errdefs.IsFailedPrecondition(err) && r.Method == http.MethodPut && claim.Status.Phase == corev1.ClaimPending {
		// Input comes before the first pod, for which a class with WaitForFirstConsumer would wait.
		if claim, err = c.bind(r.Context(), claim); err == nil {
			dir, err = c.files.Files(r.Context(), claim)
		}
	}
	if err != nil {
		return err
	}
	query := r.URL.Query()
	path := query.Get("path")
	if r.Method == http.MethodGet {
		return sendFiles(w, r, dir, path, c.logger.With("namespace", claim.Namespace, "claim", claim.Name))
	}
	tree, err := archive.Open(dir)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := tree.Read(r.Context(), r.Body, path, query.Get("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// bind has a volume made for a claim that waits for its first pod, as a scheduler does that has found a node for one, and waits
// for it.
func (c claimFiles) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	ctx = request.WithNamespace(ctx, claim.Namespace)
	selected := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, was runtime.Object) (runtime.Object, error) {
		chosen := was.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		if chosen.UID != claim.UID {
			return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), claim.Name)
		}
		metav1.SetMetaDataAnnotation(&chosen.ObjectMeta, volumehelpers.AnnSelectedNode, c.node)
		return chosen, nil
	})
	if _, _, err := c.objects.Update(ctx, claim.Name, selected, nil, nil, false, &metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	for end := time.Now().Add(boundWithin); ; {
		obj, err := c.objects.Get(ctx, claim.Name, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		now := obj.(*corev1.PersistentVolumeClaim)
		switch {
		case now.UID != claim.UID:
			return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), claim.Name)
		case now.Status.Phase == corev1.ClaimBound:
			return now, nil
		case time.Now().After(end):
			return nil, fmt.Errorf("the claim has not got a volume within %v; see: jobctl describe pvc/%s -n %s: %w",
				boundWithin, claim.Name, claim.Namespace, errdefs.ErrFailedPrecondition)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
