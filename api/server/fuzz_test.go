package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// FuzzPatch applies patches of every type to a Job, through all that an API server does with them, and leaves it as it
// was.
func FuzzPatch(f *testing.F) {
	ts := startServer(f)
	mustMake(f, ts.client(f).BatchV1().Jobs("default"), newJob("a"))
	kinds := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType}
	for kind, patches := range [][]string{
		{
			`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`, `[{"op":"test","path":""}]`,
			`[{"op":"move","from":"/spec","path":"/metadata/annotations"}]`,
		},
		{`{"spec":{"parallelism":2}}`, `{"metadata":null}`, `[]`},
		{
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"x","env":[{"name":"A","$patch":"delete"}]}]}}}}`,
			`{"spec":{"$patch":"replace"}}`,
			`{"spec":{"template":{"spec":{"volumes":[{"name":[0]},{"name":{"a":1}}],"containers":[{"name":[0]}]}}}}`,
			`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"c"}],"$retainKeys":["a"]}}}}`,
		},
		{
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"parallelism":3}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c"},{"name":"c"}]}}}}`,
			"a: [b",
		},
	} {
		for _, p := range patches {
			for _, part := range []string{"", "/status"} {
				f.Add(uint8(kind), part == "", p)
			}
		}
	}
	before := ts.store.Version()
	f.Fuzz(func(t *testing.T, kind uint8, whole bool, patch string) {
		path := "/apis/batch/v1/namespaces/default/jobs/a"
		if !whole {
			path += "/status"
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, path+"?dryRun=All&fieldManager=fuzz&force=true", strings.NewReader(patch))
		contentType := kinds[int(kind)%len(kinds)]
		r.Header.Set("Content-Type", string(contentType))
		if contentType != types.ApplyPatchType {
			r.URL.RawQuery = "dryRun=All"
		}
		w := httptest.NewRecorder()
		ts.local.handler.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s: %d: %s", contentType, w.Code, w.Body)
		}
		if ts.store.Version() != before {
			t.Error("something was written")
		}
	})
}
