package reach

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRedirectsOfPods(t *testing.T) {
	const base = "/api/v1/namespaces/n/pods/p:8080/proxy"
	const refused = "refused"
	for _, c := range []struct{ location, program, browser string }{
		{"/there", base + "/there", base + "/there"},
		{"/there/?a=b%2Fc#d", base + "/there/?a=b%2Fc#d", base + "/there/?a=b%2Fc#d"},
		{"/a%2Fb", base + "/a%2Fb", base + "/a%2Fb"},
		{"there", base + "/deep/there", base + "/deep/there"},
		{"?page=2", base + "/deep/page?page=2", base + "/deep/page?page=2"},
		{"../../x", base + "/x", base + "/x"},
		{"", "", ""},
		// by one that knows of the proxy
		{base + "/there", base + "/there", base + "/there"},
		{base, base, base},
		{base + "2/there", base + base + "2/there", base + base + "2/there"},
		// by its own address, or the one that it was asked by
		{"http://localhost:8080/there", base + "/there", base + "/there"},
		{"http://localhost:8080", base + "/", base + "/"},
		{"https://jobd.example.org:6443/there", base + "/there", base + "/there"},
		// to other parts of the API
		{"/../../../secrets", base + "/secrets", base + "/secrets"},
		{"../../../../../../secrets", base + "/secrets", base + "/secrets"},
		{"/%2e%2E/.%2e/secrets", base + "/secrets", base + "/secrets"},
		{base + "/../../../secrets", base + "/api/v1/namespaces/n/secrets", base + "/api/v1/namespaces/n/secrets"},
		{"https://jobd.example.org:6443/api/v1/namespaces/n/secrets", base + "/api/v1/namespaces/n/secrets", base + "/api/v1/namespaces/n/secrets"},
		{`/\example.net/x`, base + "/%5Cexample.net/x", base + "/%5Cexample.net/x"},
		{"///example.net/x", base + "///example.net/x", base + "///example.net/x"},
		// to others
		{"http://example.net/x", refused, "http://example.net/x"},
		{"//example.net/x", refused, "//example.net/x"},
		{"http://localhost:80/x", refused, "http://localhost:80/x"},
		{"http://localhost:8080@example.net/", refused, "http://localhost:8080@example.net/"},
		{"ftp://localhost:8080/x", refused, "ftp://localhost:8080/x"},
		{"mailto:x", refused, "mailto:x"},
		{"http://[", refused, "http://["},
		{"%zz", refused, "%zz"},
	} {
		for _, by := range []struct{ mode, want string }{{"", c.program}, {"navigate", c.browser}, {"cors", c.browser}} {
			asked := httptest.NewRequest(http.MethodGet, "http://localhost:8080/deep/page?page=1", nil)
			asked.Host = "jobd.example.org:6443"
			if by.mode != "" {
				asked.Header.Set("Sec-Fetch-Mode", by.mode)
			}
			answer := &http.Response{StatusCode: http.StatusFound, Header: http.Header{}, Request: asked}
			if c.location != "" {
				answer.Header.Set("Location", c.location)
			}
			got := refused
			if err := stayBelow(answer, base); err == nil {
				got = answer.Header.Get("Location")
			}
			if got != by.want {
				t.Errorf("%q by %q leads to %q, want %q", c.location, by.mode, got, by.want)
			}
		}
	}
	// Nobody follows what only says where something was made.
	made := &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Location": {"http://example.net/x"}}, Request: httptest.NewRequest(http.MethodPost, "/x", nil),
	}
	if err := stayBelow(made, base); err != nil || made.Header.Get("Location") != "http://example.net/x" {
		t.Error(made.Header, err)
	}
}
