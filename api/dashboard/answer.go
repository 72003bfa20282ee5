package dashboard

import (
	"net/http"
	"slices"
)

// ofContent are the headers of an answer that say something of its content.
var ofContent = []string{"Content-Encoding", "Content-Length", "Content-Type", "Etag", "Last-Modified", "Retry-After"}

// answer is what a link passes on to its browser. The server may be anybody's, on another machine: of its headers only those of the content
// count, since a cookie or what a browser is told to forget holds for all ports of a host, and so for whatever else is served on this
// machine; and it sends nothing before its answer (1xx), for which a proxy would forget the headers of the link.
type answer struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a answer) WriteHeader(code int) {
	if code < http.StatusOK {
		return
	}
	h := a.Header()
	for name := range h {
		if !slices.Contains(ofContent, name) {
			delete(h, name)
		}
	}
	confineLink(h)
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap lets a proxy send at once what it has written.
func (a answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// confineLink sets the headers of all that a link answers.
func confineLink(h http.Header) {
	Confine(h)
	h.Set(sessionHeader, "link")
}
