package about

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	wire "github.com/jobd/jobd/api/picture"
)

const missing = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "there is none", "code": 404}`

// A server that is no jobd, or has no such object, is told from one that answers nonsense.
func TestWhatAnAnswerMeans(t *testing.T) {
	jobs, sets := "/apis/batch/v1/namespaces/n/jobs/a", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/n/jobsets/a"
	for _, c := range []struct {
		rule    string
		answers map[string]string // by path; everything else is missing
		want    string            // in the error; empty for none
	}{
		{"a picture", map[string]string{"OBJECT": `{}`, "OBJECT/picture": `{}`, "OBJECT/why": `{}`}, ""},
		{"no jobd", map[string]string{"OBJECT": `{}`}, "the server draws no pictures of"},
		{"no such object", nil, "there is none"},
		{"nonsense", map[string]string{"OBJECT": `{}`, "OBJECT/picture": `[]`, "OBJECT/why": `[]`}, "the server's answer: "},
	} {
		for _, object := range []string{jobs, sets} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				said, ok := c.answers[strings.Replace(r.URL.Path, object, "OBJECT", 1)]
				if !ok {
					w.WriteHeader(http.StatusNotFound)
					said = missing
				}
				fmt.Fprint(w, said)
			}))
			defer server.Close()
			client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
			var err error
			if object == jobs {
				err = Picture(t.Context(), client, "n", "a", wire.Options{}, &wire.Picture{})
			} else {
				_, err = SetPicture(t.Context(), client, "n", "a")
			}
			check := func(of string, err error, want string) {
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s of %s: %v, want %q", c.rule, of, object, err, want)
				}
			}
			check("picture", err, c.want)
			want := c.want
			if c.rule == "no jobd" {
				want = "there is none"
			}
			resource := object[strings.LastIndex(strings.TrimSuffix(object, "/a"), "/")+1 : len(object)-2]
			_, err = Why(t.Context(), client, Object{resource, "n", "a"})
			check("why", err, want)
		}
	}
}
