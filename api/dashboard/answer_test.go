package dashboard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// TestAnswersOfAHostileServer: on another machine there may be anybody, who speaks to the browser here for no more than the page.
func TestAnswersOfAHostileServer(t *testing.T) {
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Link", "</x>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		for name, value := range map[string]string{
			"Set-Cookie": "session=mine; Path=/", "Clear-Site-Data": `"*"`, "Service-Worker-Allowed": "/", "Refresh": "0; url=http://127.0.0.1:1/",
			"Location": "http://127.0.0.1:1/", "Content-Security-Policy": "script-src *", "Access-Control-Allow-Origin": "*", "X-Frame-Options": "ALLOWALL",
			"Jobd-Dashboard": "refused", "Content-Type": "text/html",
		} {
			h.Set(name, value)
		}
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "content")
		_ = http.NewResponseController(w).Flush()
	}))
	defer hostile.Close()
	to, err := url.Parse(hostile.URL)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLink("", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1})
	link := httptest.NewServer(l)
	defer link.Close()
	l.host = link.Listener.Addr().String()
	l.take(l.token)
	r, err := http.NewRequest(http.MethodGet, link.URL+"/"+l.id+"/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: l.cookie(), Value: l.session})
	got, err := link.Client().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if content, err := io.ReadAll(got.Body); err != nil || string(content) != "content" || got.StatusCode != http.StatusFound {
		t.Errorf("%d %q, %v", got.StatusCode, content, err)
	}
	want := http.Header{"Content-Type": {"text/html"}}
	confineLink(want)
	got.Header.Del("Date") // the link's own server says it
	for name := range want {
		if got.Header.Get(name) != want.Get(name) || len(got.Header[name]) != 1 {
			t.Errorf("%s: %q, want %q", name, got.Header[name], want.Get(name))
		}
		got.Header.Del(name)
	}
	if len(got.Header) > 0 {
		t.Errorf("it passes on %v", got.Header)
	}
}
