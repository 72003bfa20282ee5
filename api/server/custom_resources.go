package server

import (
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// customResourcesPath is where kubectl looks for a kind that the API's own groups do not have, such as a
// NetworkPolicy: without this list it would fail with an error about the list itself instead of reporting that
// there is no such kind.
const customResourcesPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// serveCustomResources serves an empty list: nobody has defined further kinds. Nothing can be written there, and
// discovery has no such resource.
func (s *Server) serveCustomResources() {
	s.generic.Handler.NonGoRestfulMux.UnlistedHandle(customResourcesPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.NotFound(w, r)
			return
		}
		none := &metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinitionList"},
			ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(s.config.Store.Version(), 10)},
			Items:    []metav1.PartialObjectMetadata{},
		}
		responsewriters.WriteRawJSON(http.StatusOK, none, w)
	}))
}
