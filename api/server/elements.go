package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/elements"
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

// countElements refuses bodies with more elements in a list than any object has, before they are decoded.
func (s *Server) countElements(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || r.Body == nil || r.Body == http.NoBody || 0 <= r.ContentLength && r.ContentLength < smallBody ||
			slices.Contains(reaching, info.Subresource) || !slices.Contains(changing, info.Verb) {
			next.ServeHTTP(w, r)
			return
		}
		checked, err := s.checkElements(r, info)
		if err != nil {
			gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
			responsewriters.ErrorNegotiated(err, scheme.Codecs, gv, w, r)
			return
		}
		next.ServeHTTP(w, checked)
	})
}

// checkElements reads the body of a request, and returns the request with the same body.
func (s *Server) checkElements(r *http.Request, info *request.RequestInfo) (*http.Request, error) {
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
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = "" // the handler takes it for JSON, or refuses it
	}
	var found *field.Error
	switch kind {
	case "application/yaml", "application/apply-patch+yaml":
		found, err = elements.InYAML(body, func() error { return storage.Hold(r.Context(), len(body)*yamlFactor) })
		if err != nil {
			return nil, err
		}
	case "application/vnd.kubernetes.protobuf":
		found = elements.InProtobuf(body, scheme.Scheme)
	default:
		found = elements.InJSON(body, kind == "application/json-patch+json")
	}
	if found == nil {
		return checked, nil
	}
	return nil, apierrors.NewInvalid(schema.GroupKind{Group: info.APIGroup, Kind: s.kinds[schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}]},
		info.Name, field.ErrorList{found})
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
