package server

import (
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/common"
)

// serveOpenAPI serves /openapi/v2 and /openapi/v3. The documents are built on the first request: that takes as long as
// the rest of the start together.
func (s *Server) serveOpenAPI(v2 *common.Config, v3 *common.OpenAPIV3Config) {
	documents := sync.OnceValue(func() http.Handler {
		m := mux.NewPathRecorderMux("openapi")
		routes.OpenAPI{Config: v2}.InstallV2(s.generic.Handler.GoRestfulContainer, m)
		routes.OpenAPI{V3Config: v3}.InstallV3(s.generic.Handler.GoRestfulContainer, m)
		return m
	})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { documents().ServeHTTP(w, r) })
	s.generic.Handler.NonGoRestfulMux.UnlistedHandlePrefix("/openapi/", handler)
}
