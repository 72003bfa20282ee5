package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/elements"
	"github.com/jobd/jobd/api/scheme"
)

func many(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+", ", n), ", ") }

// TestBodiesWithManyElements sends what is small on the wire and large in memory, in each form that a body can have.
func TestBodiesWithManyElements(t *testing.T) {
	ts := startServer(t)
	const in = "/api/v1/namespaces/default/"
	ts.mustDo(t, http.MethodPost, in+"pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	large := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: corev1.PodSpec{Containers: make([]corev1.Container, 40000)}}
	var wire bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(large, &wire); err != nil {
		t.Fatal(err)
	}
	head := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bomb"}, "spec": {"containers": [`
	const pod = "/api/v1/namespaces/default/pods/p"
	for _, c := range []struct{ name, method, path, form, body, says string }{
		{"JSON", "POST", in + "pods", "application/json", head + many(40000, "{}") + "]}}", "spec.containers: Too many: 40000: must have at most 5000 items"},
		{"3 MB of it", "POST", in + "pods", "application/json", head + many(780000, "{}") + "]}}", "spec.containers: Too many: 780000: must have at most 5000 items"},
		{"no content type", "POST", in + "pods", "", head + many(40000, "{}") + "]}}", "Too many: 40000"},
		{"a Job", "POST", "/apis/batch/v1/namespaces/default/jobs", "application/json", `{"spec": {"template": {"spec": {"volumes": [` + many(6000, "{}") + "]}}}}",
			`Job.batch \"\" is invalid: spec.template.spec.volumes: Too many: 6000: must have at most 5000 items`},
		{"null", "POST", in + "pods", "application/json", head + many(6000, "null") + "]}}", "Too many: 6000"},
		{"YAML", "POST", in + "pods", "application/yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n" + strings.Repeat("  - {}\n", 6000), "spec.containers: Too many: 6000"},
		{"protobuf", "POST", in + "pods", "application/vnd.kubernetes.protobuf", wire.String(), "spec.containers: Too many: 40000"},
		{"a replacement", "PUT", pod, "application/json", head + many(6000, "{}") + "]}}", `Pod \"p\" is invalid: spec.containers: Too many: 6000`},
		{"a merge patch", "PATCH", pod, "application/merge-patch+json", `{"metadata": {"ownerReferences": [` + many(6000, "{}") + "]}}", "metadata.ownerReferences: Too many: 6000"},
		{"a strategic merge patch", "PATCH", pod, "application/strategic-merge-patch+json", `{"spec": {"tolerations": [` + many(6000, "{}") + "]}}", "spec.tolerations: Too many: 6000"},
		{"a JSON patch", "PATCH", pod, "application/json-patch+json", `[{"op": "add", "path": "/spec/tolerations", "value": [` + many(6000, "{}") + "]}]", "[0].value: Too many: 6000"},
		{"many operations of a JSON patch", "PATCH", pod, "application/json-patch+json", `[` + many(6000, `{"op": "add", "path": "/metadata/ownerReferences/-", "value": {}}`) + "]", ""},
		{"operations that add", "PATCH", pod, "application/json-patch+json", `[{"op": "add", "path": "/spec/tolerations", "value": []}, ` + many(6000, `{"op": "add", "path": "/spec/tolerations/-", "value": {}}`) + "]",
			"spec.tolerations: Too many: 6000: must have at most 5000 items"},
		{"server-side apply", "PATCH", pod + "?fieldManager=m", "application/apply-patch+yaml", head + many(6000, "{}") + "]}}", "spec.containers: Too many: 6000"},
		{"a part of a pod", "PATCH", pod + "/ephemeralcontainers", "application/strategic-merge-patch+json", `{"spec": {"ephemeralContainers": [` + many(6000, `{"name": "x"}`) + "]}}", "spec.ephemeralContainers: Too many: 6000"},
		{"a question", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", `{"spec": {"resourceAttributes": {"fieldSelector": {"requirements": [` + many(6000, "{}") + "]}}}}", "Too many: 6000"},
		{"a deletion", "DELETE", in + "pods", "application/json", `{"dryRun": [` + many(6000, "{}") + "]}", "Too many: 6000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, said := ts.do(t, c.method, c.path, c.form, c.body)
			if c.says == "" { // refused by the library
				if code < 400 || code >= 500 {
					t.Errorf("%d %.300s", code, said)
				}
				return
			}
			if code != 422 || !strings.Contains(said, c.says) {
				t.Errorf("%d %.300s", code, said)
			}
		})
	}
}

// Real objects are large too.
func TestLargeObjectsThatAreFine(t *testing.T) {
	ts := startServer(t)
	const in = "/api/v1/namespaces/default/"
	numbered := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ", ")
	}
	slice := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, AddressType: discoveryv1.AddressTypeIPv4}
	for i := range 1000 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.%d.%d", i/250, i%250)}})
	}
	endpoints, err := json.Marshal(slice)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"a ConfigMap of 20,000 keys":        {in + "configmaps", `{"metadata": {"name": "c"}, "data": {` + numbered(20000, `"k%d": "v"`) + `}}`},
		"a pod with 1,000 variables":        {in + "pods", `{"metadata": {"name": "e"}, "spec": {"containers": [{"name": "c", "image": "i", "env": [` + numbered(1000, `{"name": "V%d", "value": "x"}`) + `]}]}}`},
		"a pod with 20,000 arguments":       {in + "pods", `{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "args": [` + many(20000, `"x"`) + `]}]}}`},
		"a policy of 3,000 blocks":          {"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `{"metadata": {"name": "n"}, "spec": {"podSelector": {}, "egress": [{"to": [` + many(3000, `{"ipBlock": {"cidr": "10.0.0.0/8"}}`) + `]}]}}`},
		"a Role of 1,000 rules":             {"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `{"metadata": {"name": "r"}, "rules": [` + numbered(1000, `{"apiGroups": [""], "resources": ["r%d"], "verbs": ["get"]}`) + `]}`},
		"an EndpointSlice of 1,000 members": {"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", string(endpoints)},
	} {
		t.Run(name, func(t *testing.T) {
			if code, said := ts.do(t, "POST", c[0], "application/json", c[1]); code != 201 {
				t.Errorf("%d %.300s", code, said)
			}
		})
	}
}

func TestErrorsOfAnObjectAreBounded(t *testing.T) {
	ts := startServer(t)
	code, said := ts.do(t, "POST", "/api/v1/namespaces/default/pods", "application/json", `{"metadata": {"name": "p"}, "spec": {"containers": [`+many(elements.Most, "{}")+`]}}`)
	var status metav1.Status
	if err := json.Unmarshal([]byte(said), &status); err != nil || code != 422 {
		t.Fatalf("%d %.300s", code, said)
	}
	if n := len(status.Details.Causes); n != maxErrors {
		t.Errorf("%d errors", n)
	}
	if got := first(make(field.ErrorList, 3)); len(got) != 3 {
		t.Errorf("%d of 3", len(got))
	}
}

// A body is the same after it was looked at, and ends as it ended.
func TestBodyThatWasRead(t *testing.T) {
	read := func(b *readBody) string {
		all, err := io.ReadAll(b)
		return fmt.Sprint(string(all), " ", err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{{nil, "body <nil>"}, {io.ErrUnexpectedEOF, "body unexpected EOF"}} {
		if got := read(&readBody{Reader: bytes.NewReader([]byte("body")), rest: http.NoBody, err: c.err}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
