package server

import (
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
