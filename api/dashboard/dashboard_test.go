package dashboard

import (
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/dashboard/assets"
)

// TestNothingWrittenByOthersBecomesMarkup keeps ways to make markup or code from text out of the files of the page.
func TestNothingWrittenByOthersBecomesMarkup(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|` +
		`createContextualFragment|DOMParser|setHTML|javascript:|\bon[a-z]+="|<script>|https?://`)
	for _, files := range []fs.FS{embedded, assets.FS} {
		err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			text := inline.ReplaceAllString(string(content), "")
			text = strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "") // a name, which nobody loads
			for line := range strings.Lines(text) {
				if found := forbidden.FindString(line); found != "" {
					t.Errorf("%s: %q in %s", name, found, strings.TrimSpace(line))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inline finds the script in a page itself.
var inline = regexp.MustCompile(`<script>(.*)</script>`)

// The pages' own script is the one that they may run.
func TestInlineScript(t *testing.T) {
	for _, name := range []string{"page/index.html", "page/link.html"} {
		content, err := embedded.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := inline.FindAllSubmatch(content, -1)
		if len(found) != 1 {
			t.Fatalf("%s has %d", name, len(found))
		}
		sum := sha256.Sum256(found[0][1])
		if got := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); got != again {
			t.Errorf("%s: %s, want %s", name, got, again)
		}
	}
}

func TestHandler(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		code         int
		mediaType    string
	}{
		"the page":             {"GET", "/dashboard/", 200, "text/html; charset=utf-8"},
		"without the slash":    {"GET", "/dashboard", 301, ""},
		"a script":             {"GET", "/dashboard/app.js", 200, "text/javascript; charset=utf-8"},
		"the drawing":          {"GET", "/dashboard/picture.js", 200, "text/javascript; charset=utf-8"},
		"its style":            {"HEAD", "/dashboard/picture.css", 200, "text/css; charset=utf-8"},
		"no such file":         {"GET", "/dashboard/none.js", 404, ""},
		"a directory":          {"GET", "/dashboard/page/", 404, ""},
		"a way out":            {"GET", "/dashboard/../dashboard.go", 404, ""},
		"a way out, encoded":   {"GET", "/dashboard/%2e%2e%2fdashboard.go", 404, ""},
		"a way out, backwards": {"GET", `/dashboard/..%5cdashboard.go`, 404, ""},
		"a write":              {"POST", "/dashboard/", 405, ""},
		"another":              {"DELETE", "/dashboard/app.js", 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			Handler().ServeHTTP(w, httptest.NewRequest(c.method, "http://host"+c.path, nil))
			if w.Code != c.code || c.mediaType != "" && w.Header().Get("Content-Type") != c.mediaType {
				t.Errorf("%d %s, want %d %s", w.Code, w.Header().Get("Content-Type"), c.code, c.mediaType)
			}
			checkConfined(t, w.Header())
		})
	}
}

func checkConfined(t *testing.T, h http.Header) {
	t.Helper()
	csp := h.Get("Content-Security-Policy")
	if strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy is %q", csp)
	}
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestForeign(t *testing.T) {
	for name, c := range map[string]struct {
		site, origin string
		want         bool
	}{
		"no browser":               {"", "", false},
		"the page":                 {"same-origin", "https://host:6443", false},
		"typed into a browser":     {"none", "", false},
		"another site":             {"cross-site", "", true},
		"another port of the host": {"same-site", "https://host:1", true},
		"an older browser":         {"", "https://evil.example", true},
		"a sandboxed frame":        {"", "null", true},
		"the page, an older one":   {"", "https://host:6443", false},
		"a name that begins alike": {"", "https://host:6443.evil.example", true},
		"a word that means more":   {"same-origin ", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "https://host:6443/api/v1/pods", nil)
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if got := Foreign(r); got != c.want {
				t.Errorf("Foreign is %v, want %v", got, c.want)
			}
		})
	}
}
