package redirects

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestNoOtherServerIsAsked(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/x", http.StatusTemporaryRedirect)
		case "/twice":
			http.Redirect(w, r, "/away", http.StatusFound)
		case "/within":
			http.Redirect(w, r, "/there", http.StatusMovedPermanently)
		case "/there":
			if r.Header.Get("Authorization") != "Bearer secret" {
				t.Error("the server does not get its own token")
			}
			_, _ = w.Write([]byte("hello"))
		}
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, BearerToken: "secret"}
	Refuse(config)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	rc := client.CoreV1().RESTClient()
	for _, path := range []string{"/away", "/twice"} {
		for _, verb := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			err := rc.Verb(verb).AbsPath(path).Body([]byte("body")).Do(t.Context()).Error()
			if verb == http.MethodGet {
				err = rc.Get().AbsPath(path).Do(t.Context()).Error()
			}
			if err == nil || !strings.Contains(err.Error(), "leads elsewhere") {
				t.Errorf("%s %s: %v", verb, path, err)
			}
		}
		if _, err := rc.Get().AbsPath(path).Stream(t.Context()); err == nil {
			t.Errorf("%s is streamed", path)
		}
	}
	if asked > 0 {
		t.Errorf("another server was asked %d times", asked)
	}
	if said, err := rc.Get().AbsPath("/within").DoRaw(t.Context()); err != nil || string(said) != "hello" {
		t.Errorf("%q %v", said, err)
	}
}
