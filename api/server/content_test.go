package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/scheme"
)

// TestDiscoveryTakesTwoRequests, as in clusters whose discovery is aggregated, and names every kind that is served.
func TestDiscoveryTakesTwoRequests(t *testing.T) {
	ts := startServer(t)
	config := ts.config()
	var requests atomic.Int64
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { requests.Add(1); return rt.RoundTrip(r) })
	})
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerGroupsAndResources()
	if err != nil || requests.Load() != 2 {
		t.Errorf("%d requests: %v", requests.Load(), err)
	}
	found := map[string]metav1.APIResource{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			found[list.GroupVersion+"/"+r.Name] = r
		}
	}
	for _, k := range scheme.Kinds() {
		r := found[k.GroupVersion.String()+"/"+k.Resource]
		if r.Kind != k.Name || r.Namespaced != k.Namespaced || !slices.Contains(r.Verbs, "watch") {
			t.Errorf("%s: %+v", k.Name, r)
		}
	}

	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, path := range []string{"/api", "/apis"} {
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal([]byte(ts.get(t, path, aggregated)), &list); err != nil || list.Kind != "APIGroupDiscoveryList" || len(list.Items) == 0 {
			t.Errorf("%s: %+v: %v", path, list, err)
		}
		resp := ts.send(t, "GET", path, http.Header{"Accept": {aggregated}})
		tag := resp.Header.Get("Etag")
		if again := ts.send(t, "GET", path, http.Header{"Accept": {aggregated}, "If-None-Match": {tag}}); tag == "" ||
			again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again, with its tag %q: %d", path, tag, again.StatusCode)
		}
	}
}

func TestContentTypes(t *testing.T) {
	ts := startServer(t)
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	const path = "/apis/batch/v1/namespaces/default/jobs"
	for accept, want := range map[string]string{
		"":                                    "application/json",
		"*/*":                                 "application/json",
		"application/*":                       "406", // as in clusters: the router rejects it before the negotiation
		"application/json":                    "application/json",
		"application/yaml":                    "application/yaml",
		"application/vnd.kubernetes.protobuf": "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf, application/json":                               "application/vnd.kubernetes.protobuf",
		"text/plain, application/yaml;q=0.5":                                                  "application/yaml",
		"application/json;as=Table;g=meta.k8s.io;v=v1, application/json":                      "application/json",
		"application/json;as=Table;g=meta.k8s.io;v=v1beta1":                                   "application/json",
		"application/json;as=Nothing;g=meta.k8s.io;v=v1, application/json":                    "application/json",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": "application/vnd.kubernetes.protobuf",
		"text/plain": "406",
		"application/json;as=Nothing;g=meta.k8s.io;v=v1": "406",
	} {
		resp := ts.send(t, "GET", path, http.Header{"Accept": {accept}})
		got := resp.Header.Get("Content-Type")
		if resp.StatusCode != 200 {
			got = http.StatusText(resp.StatusCode)
			want = strings.Replace(want, "406", http.StatusText(http.StatusNotAcceptable), 1)
		}
		if got != want {
			t.Errorf("Accept %q: %s, want %s", accept, got, want)
		}
	}
	odd := newJob("odd")
	odd.Annotations = map[string]string{"text": "\x7f\u0085\u009b\u202e\uffff", "long": strings.Repeat("\x7f", 3000)}
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), odd)
	for _, at := range []string{path + "/odd", path} {
		text, err := ts.client(t).RESTClient().Get().AbsPath(at).SetHeader("Accept", "application/yaml").DoRaw(t.Context())
		var got batchv1.JobList
		if err != nil || yaml.Unmarshal(text, &got) != nil {
			t.Fatalf("%s: %v, %.200s", at, err, text)
		}
		if len(got.Items) == 0 {
			got.Items = make([]batchv1.Job, 1)
			if err := yaml.Unmarshal(text, &got.Items[0]); err != nil {
				t.Fatal(err)
			}
		}
		if last := got.Items[len(got.Items)-1]; !maps.Equal(last.Annotations, odd.Annotations) {
			t.Errorf("%s: the annotations came back as %q", at, last.Annotations)
		}
	}
	manifest, err := yaml.JSONToYAML([]byte(jobJSON("y")))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		contentType, body string
		code              int
	}{
		{"application/json", jobJSON("j"), 201},
		{"", jobJSON("none"), 201},
		{"application/json; charset=utf-8", jobJSON("charset"), 201},
		{"application/yaml", string(manifest), 201},
		{"text/plain", jobJSON("t"), 415},
		{"application/xml", "<job/>", 415},
		{"application/json", "{", 400},
		{"application/json", "", 400},
		{"application/json", "[]", 400},
		{"application/json", "null", 422},
		{"application/yaml", "a: [", 400},
		{"application/vnd.kubernetes.protobuf", "k8s\x00nonsense", 400},
		{"application/vnd.kubernetes.protobuf", jobJSON("p"), 400},
	} {
		if code, text := ts.do(t, "POST", path, tc.contentType, tc.body); code != tc.code {
			t.Errorf("%s %.20q: %d, want %d: %.200s", tc.contentType, tc.body, code, tc.code, text)
		}
	}
	for contentType, code := range map[string]int{
		"application/json": 415, "": 415, "application/merge-patch+json": 200, "application/strategic-merge-patch+json": 200,
		"application/json-patch+json": 400,
	} {
		if got, text := ts.do(t, "PATCH", path+"/a", contentType, `{"metadata":{"labels":{"a":"b"}}}`); got != code {
			t.Errorf("patch as %q: %d, want %d: %.200s", contentType, got, code, text)
		}
	}

	objects, err := metadata.NewForConfigOrDie(ts.config()).Resource(
		scheme.Kinds()[0].GroupVersion.WithResource("namespaces"),
	).List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || len(objects.Items) != 2 || objects.Continue == "" {
		t.Errorf("metadata only: %+v: %v", objects, err)
	}
}

// send sends a request without a body over the socket and discards the body of the answer.
func (ts *testServer) send(t testing.TB, method, path string, header http.Header) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://jobd"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	tr := &http.Transport{DialContext: ts.config().Dial}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
