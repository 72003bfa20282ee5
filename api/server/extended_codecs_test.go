package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// What the Go type of a JobSet cannot say is refused, in JSON and in YAML, and not taken for something else. A group that extends a
// cluster speaks no protobuf.
func TestReplicasOfAJobSet(t *testing.T) {
	ts := startServer(t)
	const path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
	const template = `"template":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"busybox"}]}}}}`
	set := func(name, replicas string) string {
		return `{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"name":"` + name +
			`"},"spec":{"replicatedJobs":[{"name":"a",` + template + `},{"name":"b",` + replicas + template + `}]}}`
	}
	for _, encoding := range []string{"application/json", "application/yaml"} {
		name := strings.TrimPrefix(encoding, "application/")
		if code, text := ts.do(t, http.MethodPost, path, encoding, set(name, `"replicas":0,`)); code != http.StatusBadRequest ||
			!strings.Contains(text, "spec.replicatedJobs[1].replicas: 0 is not supported") {
			t.Errorf("%s: none: %d %s", name, code, text)
		}
		if code, text := ts.do(t, http.MethodPost, path, encoding, set(name, "")); code != http.StatusCreated ||
			!strings.Contains(text, `"replicas":1`) && !strings.Contains(text, "replicas: 1") {
			t.Errorf("%s: no number: %d %s", name, code, text)
		}
	}
	if code, text := ts.do(t, http.MethodPost, path, "application/vnd.kubernetes.protobuf", "k8s\x00"); code != http.StatusUnsupportedMediaType {
		t.Errorf("protobuf: %d %s", code, text)
	}
}

// Each JobSet of a list says what it is, as in a cluster: upstream's own specs print them one by one.
func TestKindsInListsOfJobSets(t *testing.T) {
	ts := startServer(t)
	const path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
	for _, name := range []string{"a", "b"} {
		set := `{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"name":"` + name +
			`"},"spec":{"replicatedJobs":[{"name":"a","template":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"busybox"}]}}}}}]}}`
		if code, text := ts.do(t, http.MethodPost, path, "application/json", set); code != http.StatusCreated {
			t.Fatalf("%d %s", code, text)
		}
	}
	for _, of := range []string{path, "/apis/jobset.x-k8s.io/v1alpha2/jobsets", path + "?limit=1"} {
		code, text := ts.do(t, http.MethodGet, of, "", "")
		var list struct {
			Kind  string
			Items []struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
			}
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK || list.Kind != "JobSetList" || len(list.Items) == 0 {
			t.Fatalf("%s: %d %s", of, code, text)
		}
		for _, item := range list.Items {
			if item.APIVersion != "jobset.x-k8s.io/v1alpha2" || item.Kind != "JobSet" {
				t.Errorf("%s: %s is a %q of %q", of, item.Metadata.Name, item.Kind, item.APIVersion)
			}
		}
	}
}
