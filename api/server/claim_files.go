package server

import (
	"context"
	"log/slog"
	"net/http"

	corev1 "k8s.io/api/core/v1"

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
}

func (c claimFiles) serve(w http.ResponseWriter, r *http.Request, claim *corev1.PersistentVolumeClaim) error {
	if c.files == nil {
		return errNoFiles
	}
	dir, err := c.files.Files(r.Context(), claim)
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
