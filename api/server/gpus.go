package server

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/scheme"
)

// serveGPUs serves what GPUs do and who uses them. It takes the permission to list gpus.gpus.jobd.dev, which those have who may view all
// namespaces. Of the pods it names those that the client may read, and only administrators learn of the processes of the host.
func (s *Server) serveGPUs() {
	s.paths.UnlistedHandlePrefix("/apis/"+gpus.Group+"/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, err := s.gpus(r)
		if err != nil {
			responsewriters.ErrorNegotiated(err, scheme.Answers, schema.GroupVersion{Group: gpus.Group, Version: gpus.Version}, w, r)
			return
		}
		responsewriters.WriteRawJSON(http.StatusOK, list, w)
	}))
}

func (s *Server) gpus(r *http.Request) (*gpus.List, error) {
	resource := schema.GroupResource{Group: gpus.Group, Resource: "gpus"}
	switch {
	case r.URL.Path != gpus.Path:
		return nil, apierrors.NewNotFound(resource, r.URL.Path)
	case r.Method != http.MethodGet:
		return nil, apierrors.NewMethodNotSupported(resource, r.Method)
	case s.config.GPUs == nil:
		return nil, apierrors.NewServiceUnavailable("this server has no devices")
	}
	list, err := s.config.GPUs(r.Context())
	if err != nil {
		return nil, err
	}
	may := s.mayRead(r.Context())
	for i := range list.Items {
		g := &list.Items[i]
		var seen []gpus.Pod
		for _, pod := range g.Pods {
			if may("pods", pod.Namespace) {
				seen = append(seen, pod)
			} else {
				g.Others++
			}
		}
		g.Pods = seen
		if !may(gpus.Processes+"."+gpus.Group, "") {
			g.Processes = nil
		}
	}
	return list, nil
}
