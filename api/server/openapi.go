package server

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	baseversion "k8s.io/component-base/version"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/annotations"
	"github.com/jobd/jobd/api/kueue"
	"github.com/jobd/jobd/api/openapi"
	"github.com/jobd/jobd/api/scheme"
)

// serveOpenAPI serves /openapi/v2 and /openapi/v3. The documents are built on the first request: that takes as long as
// the rest of the start together, and the models of all kinds take more than two megabytes.
func (s *Server) serveOpenAPI(v2 *common.Config, v3 *common.OpenAPIV3Config) {
	documents := sync.OnceValue(func() http.Handler {
		v3.Definitions = v3.GetDefinitions(func(path string) spec.Ref { // once for all groups
			name, _ := v3.GetDefinitionName(path)
			return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(name))
		})
		m := mux.NewPathRecorderMux("openapi")
		routes.OpenAPI{Config: v2}.InstallV2(s.groups.container, m)
		routes.OpenAPI{V3Config: v3}.InstallV3(s.groups.container, m)
		return m
	})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { documents().ServeHTTP(w, r) })
	s.paths.UnlistedHandlePrefix("/openapi/", handler)
}

// openAPI returns how the documents of both versions are made.
func openAPI() (*common.Config, *common.OpenAPIV3Config) {
	names := apiopenapi.NewDefinitionNamer(scheme.Scheme)
	models := annotations.Definitions(kueue.Definitions(absent.Definitions(openapi.GetOpenAPIDefinitions)))
	info := &spec.Info{InfoProps: spec.InfoProps{Title: "jobd", Version: baseversion.DefaultKubeBinaryVersion}}
	v2 := &common.Config{
		ProtocolList: []string{"https"}, IgnorePrefixes: []string{}, Info: info,
		DefaultResponse:                &spec.Response{ResponseProps: spec.ResponseProps{Description: "Default Response."}},
		GetOperationIDAndTagsFromRoute: operationOf, GetDefinitionName: called(names), GetDefinitions: models,
	}
	v3 := &common.OpenAPIV3Config{
		IgnorePrefixes: []string{}, Info: info,
		DefaultResponse:                &spec3.Response{ResponseProps: spec3.ResponseProps{Description: "Default Response."}},
		GetOperationIDAndTagsFromRoute: operationOf, GetDefinitionName: called(names), GetDefinitions: models,
	}
	return v2, v3
}

// called returns how models are called: those whose types say so by that name, others by their path, as a cluster calls them.
func called(names *apiopenapi.DefinitionNamer) func(string) (string, spec.Extensions) {
	return func(name string) (string, spec.Extensions) {
		if strings.Contains(name, "/") {
			name = util.ToRESTFriendlyName(name)
		}
		return names.GetDefinitionName(name)
	}
}

// operationOf names an operation as a cluster does: readBatchV1NamespacedJob.
func operationOf(r common.Route) (id string, tags []string, err error) {
	route, ok := r.(*restfuladapter.RouteAdapter)
	if !ok {
		return "", nil, fmt.Errorf("%s %s is a %T", r.Method(), r.Path(), r)
	}
	return apiopenapi.GetOperationIDAndTags(route.Route)
}
