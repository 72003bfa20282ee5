package flowcontrol

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

const (
	// MaxHeaderBytes bounds the line and the headers of a request, and maxHeaders how many there are: each costs memory
	// before the client is authenticated.
	MaxHeaderBytes = 128 << 10
	maxHeaders     = 256
	// maxPath bounds the path of a request, with the names in it.
	maxPath = 8 << 10
	// maxSelector bounds a selector, and maxRequirements the number of its requirements and their values: each is matched
	// against every object, and takes several times its length for as long as a watch lasts.
	maxSelector     = 64 << 10
	maxRequirements = 1000
	// maxStreamHeader bounds the line and the headers of a watch or log, which are held as long as it lasts, and of which
	// there are thousands.
	maxStreamHeader = 32 << 10
	// maxContinue bounds the token by which a list is continued.
	maxContinue = 16 << 10
)

// RefuseExcess refuses requests that are larger than any client needs.
func RefuseExcess(next http.Handler, negotiated runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkExtent(r); err != nil {
			responsewriters.ErrorNegotiated(err, negotiated, schema.GroupVersion{}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func checkExtent(r *http.Request) *apierrors.StatusError {
	if n := len(r.URL.Path); n > maxPath {
		return tooLarge(http.StatusRequestURITooLong, "the path of the request has %d bytes: at most %d are allowed", n,
			maxPath)
	}
	count := 0
	for _, values := range r.Header {
		count += len(values)
	}
	if count > maxHeaders {
		return tooLarge(http.StatusRequestHeaderFieldsTooLarge, "the request has %d headers: at most %d are allowed",
			count, maxHeaders)
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	query := r.URL.Query()
	for _, name := range []string{"labelSelector", "fieldSelector"} {
		for _, selector := range query[name] {
			if n := len(selector); n > maxSelector {
				return tooLarge(http.StatusBadRequest, "%s has %d bytes: at most %d are allowed", name, n, maxSelector)
			}
			if n := requirements(selector); n > maxRequirements {
				return tooLarge(http.StatusBadRequest, "%s has %d requirements and values: at most %d are allowed", name, n,
					maxRequirements)
			}
		}
	}
	for _, token := range query["continue"] {
		if n := len(token); n > maxContinue {
			return tooLarge(http.StatusBadRequest, "continue has %d bytes: at most %d are allowed", n, maxContinue)
		}
	}
	return nil
}

func tooLarge(code int32, format string, args ...any) *apierrors.StatusError {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonBadRequest,
		Message: fmt.Sprintf(format, args...)}
	return &apierrors.StatusError{ErrStatus: status}
}

// requirements counts the requirements of a selector and the values of each beyond its first: commas separate both.
func requirements(selector string) int { return 1 + strings.Count(selector, ",") }

// checkStream refuses a request that lasts as long as its client wants, and would hold much for as long.
func checkStream(r *http.Request) *apierrors.StatusError {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value)
		}
	}
	if n > maxStreamHeader {
		return tooLarge(http.StatusRequestHeaderFieldsTooLarge,
			"the line and the headers of the request have %d bytes: at most %d are allowed of a watch or a log", n, maxStreamHeader)
	}
	return nil
}
