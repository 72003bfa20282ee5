package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const linkHost = "127.0.0.1:8080"

// behindLink answers what has passed the link with the path, and fails the test for headers that must not pass.
func behindLink(t *testing.T) *Link {
	return NewLink(linkHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Cookie", "Origin", "Authorization", "Impersonate-User", "Impersonate-Extra-Scopes", "Sec-Fetch-Site", "Upgrade"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s has passed the link", name)
			}
		}
		fmt.Fprint(w, "passed ", r.Method, " ", r.URL.RequestURI())
	}))
}

func send(l *Link, method, host, path, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, "http://"+linkHost+path, strings.NewReader(body))
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Result()
}

// open exchanges the link's token as its page does.
func open(t *testing.T, l *Link) *http.Cookie {
	t.Helper()
	answer := exchange(l, l.token)
	if answer.StatusCode != http.StatusNoContent || len(answer.Cookies()) != 1 {
		t.Fatalf("the exchange is answered by %d", answer.StatusCode)
	}
	return answer.Cookies()[0]
}

func exchange(l *Link, token string, headers ...string) *http.Response {
	headers = append([]string{"Origin", "http://" + linkHost, "Content-Type", "application/jobd-token", "Sec-Fetch-Site", "same-origin"}, headers...)
	return send(l, "POST", linkHost, "/"+l.id+"/session", token, headers...)
}

func TestTokenIsExchangedOnce(t *testing.T) {
	l := behindLink(t)
	token := l.token
	base, fragment, _ := strings.Cut(l.URL(), "#")
	if fragment != token || strings.Contains(base, token) {
		t.Fatalf("the token is not in the fragment of %s", l.URL())
	}
	for name, answer := range map[string]*http.Response{
		"another token":           exchange(l, strings.Repeat("0", 64)),
		"no token":                exchange(l, ""),
		"from another site":       exchange(l, token, "Origin", "http://evil.example"),
		"from another port":       exchange(l, token, "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"),
		"without an origin":       exchange(l, token, "Origin", ""),
		"as a form":               exchange(l, token, "Content-Type", "text/plain"),
		"by a GET":                send(l, "GET", linkHost, "/"+l.id+"/session", ""),
		"under a rebound name":    send(l, "POST", "evil.example:8080", "/"+l.id+"/session", token),
		"at the root of the port": send(l, "POST", linkHost, "/session", token),
	} {
		if answer.StatusCode < 400 || len(answer.Cookies()) > 0 {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
		checkConfined(t, answer.Header)
	}
	c := open(t, l)
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/"+l.id+"/" || c.Value == token {
		t.Errorf("the cookie is %v", c)
	}
	if answer := exchange(l, token); answer.StatusCode != http.StatusForbidden || len(answer.Cookies()) > 0 {
		t.Errorf("the second exchange: %d", answer.StatusCode)
	}
	if answer := exchange(l, ""); answer.StatusCode != http.StatusForbidden {
		t.Errorf("an empty token after it: %d", answer.StatusCode)
	}
}

func TestLink(t *testing.T) {
	l := behindLink(t)
	before := send(l, "GET", linkHost, "/"+l.id+"/api/v1/pods", "", "Cookie", l.cookie()+"=")
	if before.StatusCode != http.StatusForbidden {
		t.Errorf("an empty cookie before the exchange: %d", before.StatusCode)
	}
	cookie := open(t, l)
	known := l.cookie() + "=" + cookie.Value
	for name, c := range map[string]struct {
		method, host, path string // the path is below that of the link, unless it begins with two slashes
		headers            []string
		code               int
	}{
		"the page": {"GET", linkHost, "/dashboard/", nil, 200},
		"a list":   {"GET", linkHost, "/apis/batch/v1/jobs?limit=5", nil, 200},
		"a write of the page": {
			"POST", linkHost, "/apis/batch/v1/namespaces/a/jobs",
			[]string{"Origin", "http://" + linkHost, "Sec-Fetch-Site", "same-origin"}, 200,
		},
		"headers of other identities": {
			"GET", linkHost, "/api/v1/pods",
			[]string{"Authorization", "Bearer x", "Impersonate-User", "root", "Impersonate-Extra-Scopes", "x", "Upgrade", "websocket"},
			200,
		},
		"without the cookie":             {"GET", linkHost, "/api/v1/pods", []string{"Cookie", ""}, 403},
		"with another cookie":            {"GET", linkHost, "/api/v1/pods", []string{"Cookie", l.cookie() + "=00"}, 403},
		"with the cookie of another":     {"GET", linkHost, "/api/v1/pods", []string{"Cookie", "jobd-dashboard-1=" + cookie.Value}, 403},
		"a rebound name":                 {"GET", "evil.example:8080", "/api/v1/pods", nil, 403},
		"a rebound name without a port":  {"GET", "127.0.0.1", "/api/v1/pods", nil, 403},
		"localhost":                      {"GET", "localhost:8080", "/api/v1/pods", nil, 403},
		"another site":                   {"DELETE", linkHost, "/api/v1/namespaces/a/pods/b", []string{"Origin", "http://evil.example"}, 403},
		"another site by its fetch":      {"GET", linkHost, "/api/v1/pods", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another port of the machine":    {"GET", linkHost, "/api/v1/pods", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"the administrator's kubeconfig": {"GET", linkHost, "/jobd/v1/kubeconfig", nil, 403},
		"a way to it":                    {"GET", linkHost, "/api/../jobd/v1/kubeconfig", nil, 403},
		"an encoded way":                 {"GET", linkHost, "/api/%2e%2e/jobd/v1/kubeconfig", nil, 403},
		"a way of two slashes":           {"GET", linkHost, "/api/..%2fjobd/v1/kubeconfig", nil, 403},
		"images":                         {"GET", linkHost, "/jobd/v1/images", nil, 200},
		"an image's removal":             {"DELETE", linkHost, "/jobd/v1/images?ref=x", nil, 403},
		"what a pod serves":              {"GET", linkHost, "/api/v1/namespaces/a/pods/b/proxy/", nil, 403},
		"what a Service serves":          {"GET", linkHost, "/api/v1/namespaces/a/services/b/proxy", nil, 403},
		"a command in a container":       {"GET", linkHost, "/api/v1/namespaces/a/pods/b/exec?command=sh", nil, 403},
		"a pod with such a name":         {"GET", linkHost, "/api/v1/namespaces/files/pods/exec/log", nil, 200},
		"a command in that":              {"GET", linkHost, "/api/v1/namespaces/files/pods/exec/exec?command=sh", nil, 403},
		"a Job with such a name":         {"GET", linkHost, "/apis/batch/v1/namespaces/a/jobs/proxy", nil, 200},
		"what a node serves":             {"GET", linkHost, "/api/v1/nodes/n/proxy/", nil, 403},
		"a group with such a name":       {"GET", linkHost, "/apis/proxy/v1/x/y", nil, 403},
		"metrics":                        {"GET", linkHost, "/metrics", nil, 403},
		"above the link":                 {"GET", linkHost, "//api/v1/pods", nil, 403},
		"the root":                       {"GET", linkHost, "//", nil, 403},
		"the first page, without any":    {"GET", linkHost, "/", []string{"Cookie", "", "Sec-Fetch-Site", "cross-site"}, 200},
		"a write to it":                  {"POST", linkHost, "/", []string{"Cookie", ""}, 405},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/" + l.id + c.path
			if strings.HasPrefix(c.path, "//") {
				path = c.path[1:]
			}
			answer := send(l, c.method, c.host, path, "", append([]string{"Cookie", known}, c.headers...)...)
			if answer.StatusCode != c.code {
				t.Errorf("%d, want %d", answer.StatusCode, c.code)
			}
			checkConfined(t, answer.Header)
		})
	}
}
