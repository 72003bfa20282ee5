package main

import (
	"io"
	"net/http"
	"sync"
)

// refusedRequest is the last request that the server has refused to carry out, since kubectl's words about it name neither the
// field nor what it has. It may be used by several goroutines at a time.
type refusedRequest struct {
	mu     sync.Mutex
	method string
	code   int
	body   []byte
	// unauthorized says that the server did not know who asked, by what the header Authorization was.
	unauthorized  bool
	authorization string
	// stranger reports whether whoever asks is none of jobd's users; nil if nobody knows.
	stranger func() bool
	// own returns the namespace that jobd has given them, empty if none; nil if nobody knows.
	own func() string
}

// maxRefused is how much of a body is kept. A manifest with more has other troubles.
const maxRefused = 4 << 20

// watch returns a transport that remembers the requests which another one brings back as refused.
func (r *refusedRequest) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err == nil && answer.StatusCode == http.StatusUnauthorized {
			r.mu.Lock()
			r.unauthorized, r.authorization = true, request.Header.Get("Authorization")
			r.mu.Unlock()
		}
		if err != nil || answer.StatusCode < 400 || request.GetBody == nil {
			return answer, err
		}
		body, failed := request.GetBody()
		if failed != nil {
			return answer, err
		}
		defer body.Close()
		sent, failed := io.ReadAll(io.LimitReader(body, maxRefused))
		if failed != nil {
			return answer, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.method, r.code, r.body = request.Method, answer.StatusCode, sent
		return answer, err
	})
}

// sent returns what was refused; nil if nothing was.
func (r *refusedRequest) sent() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body
}

// creates reports whether something was to be created, where something else was not found.
func (r *refusedRequest) creates() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.code == http.StatusNotFound && (r.method == http.MethodPost || r.method == http.MethodPatch) // server-side apply
}

// credentials returns what was sent to a server that did not know who asked; false if that has not happened.
func (r *refusedRequest) credentials() (authorization string, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.authorization, r.unauthorized
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
