package flowcontrol

import (
	"net/http/httptest"
	"testing"
)

func TestIsWhole(t *testing.T) {
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, c := range []struct {
		query, accept, agent string
		want                 bool
	}{
		{"", "", "", false},
		{"", "application/json", "kubectl/v1.37", false},
		{"", "application/vnd.kubernetes.protobuf", "", false},
		{"", "text/unknown", "", false},
		{"", "application/yaml", "", true},
		{"?pretty=true", "", "", true},
		{"", "*/*", "curl/8", true},
		{"?pretty=false", "*/*", "curl/8", false},
		{"", table, "", true},
		{"", table + ",application/json", "kubectl/v1.37", true},
		{"", "application/json;as=Other;v=v1;g=meta.k8s.io,application/json", "", false},
		{"", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "", true},
	} {
		r := httptest.NewRequest("GET", "/api/v1/pods"+c.query, nil)
		r.Header.Set("Accept", c.accept)
		r.Header.Set("User-Agent", c.agent)
		if got := isWhole(r); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
