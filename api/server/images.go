package server

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/runtime"
)

// newImagesHandler serves images as described in package api/images. Without Images every request is refused.
func newImagesHandler(i Images) http.Handler { return &imagesHandler{i} }

// maxAuth bounds the credentials of a push. Tokens of clouds have some kilobytes.
const maxAuth = 64 << 10

type imagesHandler struct{ runtime Images }

func (h *imagesHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case h.runtime == nil:
		refuse(w, fmt.Errorf("images are managed by a container runtime, and this daemon has none: %w",
			errdefs.ErrNotImplemented))
	case r.Method == http.MethodGet && q.Get("op") == "transfers":
		transfers := images.Transfers{Items: []images.Transfer{}}
		for _, t := range h.runtime.Transfers() {
			transfers.Items = append(transfers.Items, images.Transfer(t))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(transfers)
	case r.Method == http.MethodGet && q.Get("op") == "":
		list, err := h.runtime.List(r.Context())
		answer(w, list, err)
	case r.Method == http.MethodPost && q.Get("op") == "import":
		list, err := h.runtime.Import(r.Context(), r.Body, q.Get("name"))
		answer(w, list, err)
	case r.Method == http.MethodPost && q.Get("op") == "pull" && q.Get("ref") != "":
		h.stream(w, func(say func(string)) (runtime.Image, error) { return h.runtime.Pull(r.Context(), q.Get("ref"), say) })
	case r.Method == http.MethodPost && q.Get("op") == "push" && q.Get("ref") != "" && q.Get("to") != "":
		with, err := credentials(r)
		if err != nil {
			refuse(w, err)
			return
		}
		h.stream(w, func(say func(string)) (runtime.Image, error) {
			return h.runtime.Push(r.Context(), q.Get("ref"), q.Get("to"), with, say)
		})
	case r.Method == http.MethodPost && q.Get("op") == "tag" && q.Get("ref") != "" && q.Get("to") != "":
		image, err := h.runtime.Tag(r.Context(), q.Get("ref"), q.Get("to"))
		answer(w, []runtime.Image{image}, err)
	case r.Method == http.MethodPost && q.Get("op") == "prune":
		pruned, err := h.runtime.Prune(r.Context(), q.Get("all") == "true", q.Get("dryRun") == "true")
		if err != nil {
			refuse(w, err)
			return
		}
		tell(w, images.Pruned{Items: described(pruned.Images), Freed: pruned.Freed, Kept: pruned.Kept})
	case r.Method == http.MethodDelete && q.Get("ref") != "":
		if err := h.runtime.Remove(r.Context(), q.Get("ref")); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, fmt.Errorf("want GET, GET ?op=transfers, POST ?op=import, POST ?op=pull&ref=REF, POST ?op=push&ref=REF&to=REF, POST ?op=tag&ref=REF&to=REF, "+
			"POST ?op=prune or DELETE ?ref=REF: %w",
			errdefs.ErrInvalidArgument))
	}
}

// newImageNamesHandler serves which images there are, by names and sizes alone.
func newImageNamesHandler(i Images) http.Handler {
	whole := newImagesHandler(i)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i == nil {
			whole.ServeHTTP(w, r)
			return
		}
		if r.URL.Query().Get("op") != "" {
			responsewriters.ErrorNegotiated(apierrors.NewForbidden(schema.GroupResource{Resource: "images"}, "",
				errors.New("only their names and sizes are told here")), scheme.Answers, corev1.SchemeGroupVersion, w, r)
			return
		}
		list, err := i.List(r.Context())
		names := make([]runtime.Image, 0, len(list))
		for _, image := range list {
			names = append(names, runtime.Image{Name: image.Name, Size: image.Size})
		}
		answer(w, names, err)
	})
}

// stream sends the headers of its response at once, so a failure is reported in the last line.
func (h *imagesHandler) stream(w http.ResponseWriter, do func(say func(line string)) (runtime.Image, error)) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	say := func(e images.Event) {
		// A client that has gone ends the request's context, and that ends the transfer.
		_ = out.Encode(e)
		_ = flush.Flush()
	}
	image, err := do(func(line string) { say(images.Event{Progress: line}) })
	if err != nil {
		say(images.Event{Error: imageStatus(err)})
		return
	}
	described := describe(image)
	say(images.Event{Image: &described})
}

// credentials returns those that a client wants the registry to be shown; nil if it has none.
func credentials(r *http.Request) (*runtime.Credentials, error) {
	header := r.Header.Get(images.AuthHeader)
	if header == "" {
		return nil, nil
	}
	var c images.Credentials
	raw, err := base64.URLEncoding.DecodeString(header)
	if err == nil && len(raw) <= maxAuth {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || len(raw) > maxAuth {
		return nil, fmt.Errorf("the header %s has no credentials as JSON in base64url: %w", images.AuthHeader, errdefs.ErrInvalidArgument)
	}
	return &runtime.Credentials{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken}, nil
}

func answer(w http.ResponseWriter, list []runtime.Image, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(images.List{Items: described(list)})
}

func described(list []runtime.Image) []images.Image {
	items := make([]images.Image, 0, len(list))
	for _, i := range list {
		items = append(items, describe(i))
	}
	return items
}

func describe(i runtime.Image) images.Image {
	return images.Image{Name: i.Name, ID: i.ID, Digest: i.Digest, Size: i.Size, Created: i.Created, Engine: i.Engine, Local: i.Local}
}

func refuse(w http.ResponseWriter, err error) {
	status := imageStatus(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// imageStatus converts an error of the runtime into a status of the API. The refusal of a registry is not passed on as
// ours: the client would take a 401 for its own.
func imageStatus(err error) *metav1.Status {
	s := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: err.Error(),
	}
	switch {
	case errdefs.IsNotFound(err):
		s.Code, s.Reason = http.StatusNotFound, metav1.StatusReasonNotFound
	case errdefs.IsInvalidArgument(err):
		s.Code, s.Reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
	case errdefs.IsConflict(err), errdefs.IsFailedPrecondition(err), errdefs.IsAlreadyExists(err):
		s.Code, s.Reason = http.StatusConflict, metav1.StatusReasonConflict
	case errdefs.IsNotImplemented(err):
		s.Code, s.Reason = http.StatusNotImplemented, metav1.StatusReasonMethodNotAllowed
	case errdefs.IsUnavailable(err):
		s.Code, s.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	case errdefs.IsResourceExhausted(err):
		s.Code = http.StatusInsufficientStorage
	case errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err), errdefs.IsDataLoss(err):
		s.Code = http.StatusBadGateway
	default:
		s.Code, s.Reason = http.StatusInternalServerError, metav1.StatusReasonInternalError
	}
	return s
}
