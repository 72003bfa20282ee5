package reach

import (
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"testing"
)

func TestPodsDoNotSpeakForTheOrigin(t *testing.T) {
	const base = "/api/v1/namespaces/n/pods/p:8080/proxy"
	for _, c := range []struct {
		name  string
		given []string
		want  []string
	}{
		{"Clear-Site-Data", []string{`"*"`}, nil},
		{"Service-Worker-Allowed", []string{"/"}, nil},
		{"strict-transport-security", []string{"max-age=31536000"}, nil},
		{"Alt-Svc", []string{`h3=":443"`}, nil},
		{"NEL", []string{"{}"}, nil},
		{"Accept-CH", []string{"Sec-CH-UA"}, nil},
		{"Access-Control-Allow-Origin", []string{"*"}, nil},
		{"Access-Control-Allow-Private-Network", []string{"true"}, nil},
		{"WWW-Authenticate", []string{"Basic realm=x", "Negotiate"}, nil},
		{"Warning", []string{`299 - "delete everything"`}, nil},
		{"Content-Type", []string{"text/html"}, []string{"text/html"}},
		{"Content-Security-Policy", []string{"default-src *"}, []string{"default-src *"}},
		{"X-Mine", []string{"a", "b"}, []string{"a", "b"}},
		{"Set-Cookie", []string{"a=1"}, []string{"a=1; Path=" + base + "/"}},
		{
			"Set-Cookie", []string{"a=1; Path=/", "b=2;path = /x ;Secure"},
			[]string{"a=1; Path=" + base + "/", "b=2;Secure; Path=" + base + "/x"},
		},
		{"Set-Cookie", []string{"a=1; Domain=example.org; path=" + base + "/x"}, []string{"a=1; Path=" + base + "/x"}},
		{"Set-Cookie", []string{"a=1; Path=" + base}, []string{"a=1; Path=" + base}},
		{"Set-Cookie", []string{"a=1; Path=" + base + "2"}, []string{"a=1; Path=" + base + base + "2"}},
		{"Set-Cookie", []string{"a=1; Path=" + base + "; Path=/"}, []string{"a=1; Path=" + base + "/"}},
		{"Set-Cookie", []string{"a=1; Path", "a=1; Path=x"}, []string{"a=1; Path=" + base + "/", "a=1; Path=" + base + "/"}},
		{
			"Set-Cookie", []string{`a={"b":"c,d"}; Max-Age=5; SameSite=Lax`},
			[]string{`a={"b":"c,d"}; Max-Age=5; SameSite=Lax; Path=` + base + "/"},
		},
		{"Set-Cookie", []string{"a=1; Path=/\x00", "\x7f", "b=\t2"}, []string{"b=\t2; Path=" + base + "/"}},
	} {
		h := http.Header{}
		for _, v := range c.given {
			h.Add(c.name, v)
		}
		withoutOrigin(h, base)
		if got := h.Values(c.name); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: the browser gets %q, want %q", c.name, c.given, got, c.want)
		}
	}
}

// All names are written as net/http writes them: others would not be found.
func TestNamesOfHeaders(t *testing.T) {
	for _, name := range append(slices.Clone(ofOrigin), sharing) {
		if name != http.CanonicalHeaderKey(name) {
			t.Errorf("%s is %s", name, http.CanonicalHeaderKey(name))
		}
	}
}

func TestFinalAnswers(t *testing.T) {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Alt-Svc", "clear")
		w.WriteHeader(http.StatusEarlyHints)
	}))
	defer pod.Close()
	early := 0
	trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { early++; return nil }}
	for _, transport := range []http.RoundTripper{pod.Client().Transport, finalAnswers{pod.Client().Transport}} {
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, pod.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer, err)
		}
		answer.Body.Close()
	}
	if early != 1 {
		t.Errorf("%d early answers, want that of the plain transport alone", early)
	}
}
