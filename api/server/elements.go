package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/elements"
	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
)

const (
	// smallBody is the size up to which a body cannot have too many elements: in protobuf they take two bytes each.
	smallBody = 2 * elements.Most
	// bodyFactor is how much memory a body takes, in bytes for each of its own, while it is decoded, changed and stored, and
	// yamlFactor while it is converted to JSON.
	bodyFactor, yamlFactor = 4, 32
	// maxErrors bounds how many errors in an object its client is told: the library joins them in quadratic time.
	maxErrors = 100
)

// countElements refuses bodies with more elements in a list than any object has, before they are decoded, and patches with
// quantities that take hours to compute. Those in other bodies are refused by what decodes them.
func (s *Server) countElements(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || r.Body == nil || r.Body == http.NoBody ||
			slices.Contains(roles.Reaching, info.Subresource) || !slices.Contains(roles.Changing, info.Verb) {
			next.ServeHTTP(w, r)
			return
		}
		form := formOf(r)
		if 0 <= r.ContentLength && r.ContentLength < smallBody && !slices.Contains(large, form) {
			next.ServeHTTP(w, r)
			return
		}
		checked, err := s.checkElements(r, info, form)
		if err != nil {
			gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
			responsewriters.ErrorNegotiated(err, scheme.Answers, gv, w, r)
			return
		}
		next.ServeHTTP(w, checked)
	})
}

// formOf returns what a body is, as its handler reads it: that of a patch takes no notice of what follows a semicolon, and that of
// all others takes what cannot be read for JSON.
func formOf(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	if r.Method == http.MethodPatch {
		form, _, _ := strings.Cut(header, ";")
		return form
	}
	form, _, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return form
}

const (
	inYAML      = runtime.ContentTypeYAML
	inProtobuf  = runtime.ContentTypeProtobuf
	jsonPatch   = string(types.JSONPatchType)
	applied     = string(types.ApplyYAMLPatchType)
	strategical = string(types.StrategicMergePatchType)
)

// large are the forms in which a small body can have much: in YAML by aliases, and by quantities in patches that become parts of an
// object without a decoder.
var large = []string{inYAML, applied, strategical}

// checkElements reads the body of a request, and returns the request with the same body.
func (s *Server) checkElements(r *http.Request, info *request.RequestInfo, form string) (*http.Request, error) {
	size := r.ContentLength
	if size < 0 || size > maxBodyBytes {
		size = maxBodyBytes
	}
	if err := storage.Hold(r.Context(), int(size)*bodyFactor); err != nil {
		return nil, err
	}
	body, readErr := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1)) // the handler refuses what has more
	checked := r.WithContext(r.Context())
	checked.Body = &readBody{Reader: bytes.NewReader(body), rest: r.Body, err: readErr}
	if readErr != nil || len(body) > maxBodyBytes {
		return checked, nil
	}
	heavy := len(body) >= smallBody
	if heavy {
		if err := flowcontrol.Heavy(r.Context()); err != nil {
			return nil, err
		}
	}
	kind := schema.GroupVersionKind{Group: info.APIGroup, Version: info.APIVersion,
		Kind: s.kinds[schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}]}
	var found *field.Error
	switch form {
	case inYAML, applied:
		asJSON, err := elements.ToJSON(body, func() error { return storage.Hold(r.Context(), len(body)*yamlFactor) })
		if err != nil {
			return nil, err
		}
		if !heavy && len(asJSON) >= smallBody { // by aliases
			if err := flowcontrol.Heavy(r.Context()); err != nil {
				return nil, err
			}
		}
		if found = elements.InJSON(asJSON, false); found == nil && form == applied {
			found = elements.QuantitiesInJSON(asJSON, typeOf(kind, nil))
		}
	case inProtobuf:
		if strings.HasPrefix(info.Verb, "delete") { // the decoder of all else counts, since it knows what is in a body
			found = elements.InProtobuf(body, reflect.TypeFor[metav1.DeleteOptions]())
		}
	case strategical:
		if found = elements.InJSON(body, false); found == nil {
			found = elements.QuantitiesInJSON(body, typeOf(kind, nil))
		}
		checked = checked.WithContext(context.WithValue(checked.Context(), patchKey{}, strategicPatch{elements.StrategicPatchOf(body), s.patches}))
	default:
		found = elements.InJSON(body, form == jsonPatch)
	}
	if found == nil {
		return checked, nil
	}
	return nil, apierrors.NewInvalid(kind.GroupKind(), info.Name, field.ErrorList{found})
}

// readBody is a body that has been read: what there is of it, and then how it ended.
type readBody struct {
	*bytes.Reader
	rest io.ReadCloser
	err  error
}

func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		err = b.err
	}
	return n, err
}

func (b *readBody) WriteTo(w io.Writer) (int64, error) {
	n, err := b.Reader.WriteTo(w)
	return n, errors.Join(err, b.err)
}

func (b *readBody) Close() error { return b.rest.Close() }

// refuseElements looks at an object that is about to be changed: patches add to what is there. One that has too many already,
// from before there was a bound, can still be changed and deleted.
func refuseElements(obj, old runtime.Object) error {
	err := elements.InObject(obj)
	if err == nil || old != nil && elements.InObject(old) != nil {
		return nil
	}
	kinds, _, kindErr := scheme.Scheme.ObjectKinds(obj)
	m, metaErr := meta.Accessor(obj)
	if kindErr != nil || metaErr != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return apierrors.NewInvalid(kinds[0].GroupKind(), m.GetName(), field.ErrorList{err})
}

// first returns as many errors as a client is told.
func first(errs field.ErrorList) field.ErrorList { return errs[:min(len(errs), maxErrors)] }
