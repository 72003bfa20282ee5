package server

import (
	"strings"
	"testing"
)

func TestOpenAPIExplainsFields(t *testing.T) {
	ts := startServer(t)
	code, text := ts.do(t, "GET", "/openapi/v3/apis/batch/v1", "", "")
	if code != 200 || !strings.Contains(text, "io.k8s.api.batch.v1.JobSpec") || !strings.Contains(text, "backoffLimitPerIndex") {
		t.Errorf("v3: %d, %d bytes", code, len(text))
	}
	code, text = ts.do(t, "GET", "/openapi/v2", "", "")
	if code != 200 || !strings.Contains(text, `"x-kubernetes-patch-merge-key":"name"`) {
		t.Errorf("v2: %d, %d bytes", code, len(text))
	}
}
