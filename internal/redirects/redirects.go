// Package redirects keeps clients of an API server with the server that they were set up for.
package redirects

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// Refuse lets clients of a configuration follow no redirect to another server: a server, or a pod behind it, would learn by them what is at
// addresses that they alone reach, and client-go shows its token to whomever it is led to.
func Refuse(c *rest.Config) {
	c.WrapTransport = transport.Wrappers(c.WrapTransport, func(rt http.RoundTripper) http.RoundTripper { return stays{rt} })
}

type stays struct{ http.RoundTripper }

// WrappedRoundTripper lets client-go find the transport.
func (s stays) WrappedRoundTripper() http.RoundTripper { return s.RoundTripper }

func (s stays) RoundTrip(r *http.Request) (*http.Response, error) {
	if led := r.Response; led != nil && led.Request != nil {
		from := led.Request.URL
		if safe := r.URL.Scheme == from.Scheme || r.URL.Scheme == "https"; r.URL.Host != from.Host || !safe {
			const most = 200
			if r.Body != nil {
				_ = r.Body.Close() // as a transport has to
			}
			return nil, fmt.Errorf("%s leads elsewhere, to %.*q, which is not followed", from.Host, most, r.URL.String())
		}
	}
	return s.RoundTripper.RoundTrip(r)
}
