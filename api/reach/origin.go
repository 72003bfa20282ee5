package reach

import (
	"net/http"
	"net/http/httptrace"
	"strings"
)

// ofOrigin are headers by which a server speaks for its whole origin, which here is that of the API, or in the API's name. A
// pod is one of very many servers below that origin, so they can only harm it.
var ofOrigin = []string{
	"Accept-Ch", "Alt-Svc", "Clear-Site-Data", "Critical-Ch", "Expect-Ct", "Nel", "Origin-Agent-Cluster", "Public-Key-Pins",
	"Public-Key-Pins-Report-Only", "Report-To", "Sec-Session-Registration", "Secure-Session-Registration",
	"Service-Worker-Allowed", "Set-Cookie2", "Set-Login", "Strict-Transport-Security", "Use-As-Dictionary", "Warning",
	// Whoever answers a prompt for a password sends it to the API from then on, and no pod ever gets it.
	"Proxy-Authenticate", "Www-Authenticate",
}

// sharing begins the names of the headers that let other sites read an answer, and send such requests with the certificate of a
// browser.
const sharing = "Access-Control-"

// withoutOrigin takes out of the answer of a pod what is not about the answer or about pages below base, the path of its proxy.
func withoutOrigin(h http.Header, base string) {
	for _, name := range ofOrigin {
		delete(h, name)
	}
	for name := range h {
		if strings.HasPrefix(name, sharing) {
			delete(h, name)
		}
	}
	const setCookie = "Set-Cookie"
	cookies := h[setCookie]
	delete(h, setCookie)
	for _, c := range cookies {
		if c, ok := cookieBelow(c, base); ok {
			h.Add(setCookie, c)
		}
	}
}

// cookieBelow binds a cookie to the path of a proxy and what is below, as if the pod had its origin for itself. One with a
// control character is not passed on: some browsers end it there.
func cookieBelow(cookie, base string) (string, bool) {
	if strings.ContainsFunc(cookie, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "", false
	}
	parts := strings.Split(cookie, ";")
	path, kept := "/", parts[:1]
	for _, attribute := range parts[1:] {
		name, value, _ := strings.Cut(attribute, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "domain":
		case "path": // the last one counts
			if path = strings.TrimSpace(value); !strings.HasPrefix(path, "/") {
				path = "/"
			}
		default:
			kept = append(kept, attribute)
		}
	}
	if path != base && !strings.HasPrefix(path, base+"/") { // as servers that know of the proxy write it
		path = base + path
	}
	return strings.Join(kept, ";") + "; Path=" + path, true
}

// finalAnswers keeps from a proxy what a pod sends before its answer (1xx). The proxy would pass that on without asking anybody,
// and then forget which headers were set for the answer.
type finalAnswers struct{ http.RoundTripper }

func (f finalAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		trace.Got1xxResponse = nil
	}
	return f.RoundTripper.RoundTrip(r)
}
