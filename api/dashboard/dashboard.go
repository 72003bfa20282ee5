// Package dashboard is the page on which people look at Jobs in a browser. In come requests for the page's files, which are
// embedded; out go those, with headers that confine what the page may do. The page has no rights of its own, and the files
// hold no data: it requests everything that it shows from the API, as the person who is looking at it.
//
// There are two ways to it. The daemon serves Handler beside its API, where the page asks for a token unless the browser
// has a client certificate. On the machine itself, Link gives a browser the access of somebody who can open the socket.
package dashboard

import (
	"bytes"
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/jobd/jobd/api/dashboard/assets"
)

// Path is where the daemon serves the page. The API is beside it: the page finds it at "../".
const Path = "/dashboard/"

//go:embed page
var embedded embed.FS

// again is the hash of the script in the page itself, which loads the page anew when one of its files could not be loaded: what
// a file did could not be told by another file that may be missing too.
const again = "sha256-nvvT6RvuljrwzaRyoVKKLlHHe28tyUlu2Bbin4nPMrg="

// policy lets the page load only its own files and speak only to where it came from. Nothing can frame it.
const policy = "default-src 'none'; script-src 'self' '" + again + "'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// Confine sets the headers of every answer to a browser: what the page may do, and that nothing of it is kept.
func Confine(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Handler serves the files of the page below Path, to anybody: they hold no data.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Confine(w.Header())
		if r.URL.Path+"/" == Path {
			http.Redirect(w, r, Path, http.StatusMovedPermanently)
			return
		}
		name, ok := strings.CutPrefix(r.URL.Path, Path)
		if !ok {
			http.NotFound(w, r)
			return
		}
		if name == "" {
			name = "index.html"
		}
		serveFile(w, r, name)
	})
}

// serveFile serves a file of the page. Names with a slash, and thus paths out of it, are none of its files.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the files of the page can only be read", http.StatusMethodNotAllowed)
		return
	}
	content, err := readFile(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaType(name))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func readFile(name string) ([]byte, error) {
	if strings.ContainsAny(name, `/\`) {
		return nil, fs.ErrNotExist
	}
	if content, err := assets.FS.ReadFile(name); err == nil { // reports inline them too
		return content, nil
	}
	return embedded.ReadFile(path.Join("page", name))
}

// mediaType does not depend on the tables of the machine.
func mediaType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	default:
		return mime.TypeByExtension(ext)
	}
}

// Foreign reports whether a browser sends a request for another site than the one that it is sent to. Requests of other
// clients have none of these headers. A browser may send a client certificate along with such a request, so that nothing
// but this tells it from one of the page.
func Foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
	case "same-origin", "none": // also through a proxy, which may have changed the host
		return false
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	_, host, ok := strings.Cut(origin, "://")
	return !ok || !strings.EqualFold(host, r.Host)
}
