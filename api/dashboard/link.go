package dashboard

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Link gives one browser access to an API. Its URL has a token in the fragment, which browsers do not send; a script
// exchanges it, once, for a cookie. All is below a random path, to which the cookie is bound: browsers send cookies to
// every port of a host, and another user of the machine may listen on one of them.
type Link struct {
	// Namespace is where the page looks if its person may not look everywhere; empty if that is not known.
	Namespace string

	host string // host:port, as browsers have to name it
	id   string
	next http.Handler

	mu      sync.Mutex
	token   string // empty once it was exchanged
	session string // the cookie's value; empty before
}

// NewLink makes a link at host, which is HOST:PORT. Requests of its browser go to next, with the paths of the API.
func NewLink(host string, next http.Handler) *Link {
	return &Link{host: host, id: secret(16), token: secret(32), next: next}
}

func secret(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// URL is what to open in the browser: it works once.
func (l *Link) URL() string {
	fragment := l.token
	if l.Namespace != "" {
		fragment += "." + l.Namespace
	}
	return l.base() + "#" + fragment
}

func (l *Link) base() string { return "http://" + l.host + "/" + l.id + "/" }

// cookie is the name of the cookie. It has the port in it, for several links in one browser.
func (l *Link) cookie() string {
	_, port, _ := net.SplitHostPort(l.host)
	return "jobd-dashboard-" + port
}

// sessionHeader marks answers that say that the browser has no session, in contrast to those of the API.
const sessionHeader = "Jobd-Dashboard"

// ServeHTTP implements http.Handler.
func (l *Link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	confineLink(w.Header())
	path, ok := strings.CutPrefix(r.URL.Path, "/"+l.id)
	switch {
	case r.Host != l.host: // a name that somebody has bound to the loopback address
		refuse(w, "this is not the address of the link")
	case !ok || !strings.HasPrefix(path, "/"):
		refuse(w, "this is not the path of the link: open the one that jobctl dashboard has printed")
	case path == "/" || path == "/link.js" || path == "/style.css":
		l.serveBegin(w, r, path)
	case Foreign(r):
		refuse(w, "this request is from another site")
	case path == "/session":
		l.exchange(w, r)
	case !l.known(r):
		refuse(w, "this browser has no session: open the link that jobctl dashboard has printed, or start the command again")
	case !forwarded(r.Method, path):
		refuse(w, "the page does not need this path")
	default:
		l.forward(w, r, path)
	}
}

func refuse(w http.ResponseWriter, why string) {
	w.Header().Set(sessionHeader, "refused")
	http.Error(w, why, http.StatusForbidden)
}

// serveBegin serves the page that exchanges the token. A browser may come to it from anywhere.
func (l *Link) serveBegin(w http.ResponseWriter, r *http.Request, path string) {
	if path == "/" {
		path = "/link.html"
	}
	serveFile(w, r, path[1:])
}

// exchange takes the token for a cookie. Who tries another token does not use up the right one, which has 256 bits.
func (l *Link) exchange(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "a token is exchanged by a POST", http.StatusMethodNotAllowed)
		return
	}
	// Other sites cannot send this type without asking first, which nothing here answers.
	if r.Header.Get("Content-Type") != "application/jobd-token" || r.Header.Get("Origin") != "http://"+l.host {
		refuse(w, "this request is not from the page of the link")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<10))
	if err != nil {
		http.Error(w, "cannot read the token", http.StatusBadRequest)
		return
	}
	session, ok := l.take(string(body))
	if !ok {
		refuse(w, "the link has been used, or is not that of this command: start jobctl dashboard again")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: l.cookie(), Value: session, Path: "/" + l.id + "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	w.WriteHeader(http.StatusNoContent)
}

func (l *Link) take(token string) (session string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token == "" || !equal(token, l.token) {
		return "", false
	}
	l.token, l.session = "", secret(32)
	return l.session, true
}

// known reports whether a request has the cookie.
func (l *Link) known(r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := r.Cookie(l.cookie())
	return err == nil && l.session != "" && equal(c.Value, l.session)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// forwarded reports whether the page needs a path of the daemon. Among what else the socket serves are kubeconfigs with
// the administrator's token and the whole database.
func forwarded(method, path string) bool {
	parts := strings.Split(path, "/")
	names := namesIn(parts)
	for i, part := range parts {
		if part == ".." || slices.Contains(kept, part) && !slices.Contains(names, i) {
			return false
		}
	}
	for _, prefix := range []string{"/api/", "/apis/", Path} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return method == http.MethodGet && (path == "/jobd/v1/images" || path == "/version")
}

// kept are resources that are not forwarded: they reach into containers, which could answer with scripts that the browser
// took for the page's own.
var kept = []string{"proxy", "exec", "attach", "portforward", "files"}

// namesIn returns which parts of an API path are names of objects, which may be any: /api/v1/namespaces/NAME/pods/NAME/log.
func namesIn(parts []string) []int {
	resource := 3 // after "", "api", "v1"
	if len(parts) > 1 && parts[1] == "apis" {
		resource++
	}
	if len(parts) > resource && parts[resource] == "namespaces" {
		return []int{resource + 1, resource + 3}
	}
	return []int{resource + 1}
}

// ofBrowser are headers that are meant for the link alone, or by which clients ask to be somebody else.
var ofBrowser = []string{"Cookie", "Origin", "Referer", "Authorization", "Impersonate-User", "Impersonate-Uid", "Impersonate-Group"}

func (l *Link) forward(w http.ResponseWriter, r *http.Request, path string) {
	inner := r.Clone(r.Context())
	inner.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	for name := range inner.Header {
		if strings.HasPrefix(name, "Sec-") || strings.HasPrefix(name, "Impersonate-Extra-") {
			inner.Header.Del(name)
		}
	}
	for _, name := range ofBrowser {
		inner.Header.Del(name)
	}
	// What upgrades a connection reaches into containers; the page does not need it.
	inner.Header.Del("Upgrade")
	inner.Header.Del("Connection")
	l.next.ServeHTTP(answer{w}, inner)
}
