package server

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
)

// serveHistory serves what is kept of Jobs that have ended. Like a list of Jobs it takes the permission to list them, in
// the namespace or everywhere: that of jobs.history.jobd.dev, which every role includes. It is a list only, of what has no
// objects, so discovery does not have it.
func (s *Server) serveHistory() {
	s.paths.UnlistedHandlePrefix("/apis/"+history.Group+"/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, err := s.history(r)
		if err != nil {
			gv := schema.GroupVersion{Group: history.Group, Version: history.Version}
			responsewriters.ErrorNegotiated(err, scheme.Answers, gv, w, r)
			return
		}
		responsewriters.WriteRawJSON(http.StatusOK, list, w)
	}))
}

func (s *Server) history(r *http.Request) (*history.List, error) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || r.URL.Path != history.Path(info.Namespace) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: history.Group, Resource: "jobs"}, r.URL.Path)
	}
	if r.Method != http.MethodGet {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Group: history.Group, Resource: "jobs"}, info.Verb)
	}
	if s.config.History == nil {
		return nil, apierrors.NewServiceUnavailable("this server keeps no history")
	}
	q, err := history.ParseQuery(info.Namespace, r.URL.Query())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := s.sinceNamespace(r.Context(), &q); err != nil {
		return nil, err
	}
	return s.config.History.Read(q)
}

// sinceNamespace leaves out what ran in a former namespace of the same name: it may have been somebody else's. Who may read the
// history of all namespaces finds it there, and so here too.
func (s *Server) sinceNamespace(ctx context.Context, q *history.Query) error {
	if q.Namespace == "" {
		return nil
	}
	who, _ := request.UserFrom(ctx)
	decision, _, err := s.access.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: "list", APIGroup: history.Group, APIVersion: history.Version, Resource: "jobs", ResourceRequest: true,
	})
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if decision == authorizer.DecisionAllow {
		return nil
	}
	ns, found, err := storage.Namespace(s.config.Store, q.Namespace)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !found {
		ns = nil
	}
	q.Within = history.TenancyOf(ns)
	return nil
}
