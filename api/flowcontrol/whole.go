package flowcontrol

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"

	"github.com/jobd/jobd/api/scheme"
)

// isWhole reports whether an answer takes much more memory than its objects, since it is made as a whole before any of it is sent: as a
// table, with indents, as YAML. Compact JSON and protobuf are sent object by object.
func isWhole(r *http.Request) bool {
	options, form, err := negotiation.NegotiateOutputMediaType(r, scheme.Answers, transforms{})
	if err != nil {
		return false // it is refused
	}
	return options.Convert != nil || form.MediaType == runtime.ContentTypeYAML || form.Serializer == form.PrettySerializer
}

// transforms allows what objects may be asked for as.
type transforms struct{}

func (transforms) AllowsMediaTypeTransform(_, _ string, target *schema.GroupVersionKind) bool {
	if target == nil {
		return true
	}
	gv := target.GroupVersion()
	return (gv == metav1.SchemeGroupVersion || gv == metav1beta1.SchemeGroupVersion) &&
		slices.Contains([]string{"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}, target.Kind)
}

func (transforms) AllowsServerVersion(string) bool { return false }

func (transforms) AllowsStreamSchema(string) bool { return false }
