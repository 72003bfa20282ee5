package server

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/shares"
)

// serveShares serves what everybody has used of the machine. It takes the permission to list shares.shares.jobd.dev, which those have who
// may view all namespaces.
func (s *Server) serveShares() {
	s.paths.UnlistedHandlePrefix("/apis/"+shares.Group+"/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, err := s.shares(r)
		if err != nil {
			responsewriters.ErrorNegotiated(err, scheme.Answers, schema.GroupVersion{Group: shares.Group, Version: shares.Version}, w, r)
			return
		}
		responsewriters.WriteRawJSON(http.StatusOK, list, w)
	}))
}

func (s *Server) shares(r *http.Request) (*shares.List, error) {
	resource := schema.GroupResource{Group: shares.Group, Resource: "shares"}
	switch {
	case r.URL.Path != shares.Path:
		return nil, apierrors.NewNotFound(resource, r.URL.Path)
	case r.Method != http.MethodGet:
		return nil, apierrors.NewMethodNotSupported(resource, r.Method)
	case s.config.Shares == nil:
		return nil, apierrors.NewBadRequest("the queue is ordered by age, not by what everybody has used (jobd serve --queue-order fair)")
	}
	return s.config.Shares(r.Context())
}
