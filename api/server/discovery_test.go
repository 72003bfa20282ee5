package server

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatClientsLookForInACluster(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	if svc, err := c.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil || svc.Spec.Ports[0].Port != 443 {
		t.Errorf("default/kubernetes: %+v: %v", svc, err)
	}
	list, err := c.Discovery().ServerResourcesForGroupVersion("v1")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, r := range list.APIResources { // kubectl drain evicts if it finds this
		found = found || r.Name == "pods/eviction" && r.Kind == "Eviction" && r.Group == "policy" && r.Version == "v1"
	}
	if !found {
		t.Error("pods/eviction is not of policy/v1")
	}
}

// What is served at which path, and how clients are told that nothing is: by a list of paths above the groups, by a Status in
// them.
func TestPaths(t *testing.T) {
	ts := startServer(t)
	const index, status = `"paths": [`, `"kind":"Status"`
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"/":                        {200, index},
		"/api":                     {200, `"kind":"APIVersions"`},
		"/api/":                    {200, `"kind":"APIVersions"`},
		"/apis":                    {200, `"kind":"APIGroupList"`},
		"/apis/":                   {200, `"kind":"APIGroupList"`},
		"/apis/batch":              {200, `"preferredVersion":{"groupVersion":"batch/v1"`},
		"/apis/batch/v1":           {200, `"kind":"APIResourceList"`},
		"/version":                 {200, "jobd-test"},
		"/openid/v1/jwks/":         {200, `"keys":[`},
		"/openid/v1":               {404, index},
		"/livez?verbose":           {200, "[+]ping ok"},
		"/apis//":                  {404, index},
		"/apis//v1/pods":           {404, index},
		"/apis/nope":               {404, index},
		"/apis/nope/v1/things":     {404, index},
		"/apix":                    {404, index},
		"/apis/batch/v1/nope":      {404, status},
		"/apis/batch/v2/jobs":      {404, status},
		"/api/v2/pods":             {404, status},
		"/api/v1/nope/nope/n/nope": {404, status},
	} {
		if code, text := ts.do(t, "GET", path, "", ""); code != want.code || !strings.Contains(text, want.says) {
			t.Errorf("%s: %d %.300s, want %d %s", path, code, text, want.code, want.says)
		}
	}
}
