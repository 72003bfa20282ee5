package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/elements"
	"github.com/jobd/jobd/api/scheme"
)

func many(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+", ", n), ", ") }

// unnamed returns an object in protobuf that does not say what it is.
func unnamed(t *testing.T, obj interface{ Marshal() ([]byte, error) }) string {
	t.Helper()
	raw, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := (&runtime.Unknown{Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(whole)
}

// managedBy returns the metadata of a ConfigMap of n keys that as many managers have changed, who have noted them in an order.
func managedBy(managers, n int, order func(i int) int) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: "managed"}
	for i := range managers {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"f:key-%06d":{}`, order(i))
		}
		fields := &metav1.FieldsV1{}
		fields.SetRawBytes([]byte(`{"f:data":{` + b.String()[1:] + `}}`))
		m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: fmt.Sprint("m", i), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fields,
		})
	}
	return m
}

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
		{
			"3 MB of it", "POST", in + "pods", "application/json", head + many(780000, "{}") + "]}}",
			"spec.containers: Too many: 780000: must have at most 5000 items",
		},
		{"no content type", "POST", in + "pods", "", head + many(40000, "{}") + "]}}", "Too many: 40000"},
		{"a Job", "POST", "/apis/batch/v1/namespaces/default/jobs", "application/json",
			`{"spec": {"template": {"spec": {"volumes": [` + many(6000, "{}") + "]}}}}",
			`Job.batch \"\" is invalid: spec.template.spec.volumes: Too many: 6000: must have at most 5000 items`},
		{"null", "POST", in + "pods", "application/json", head + many(6000, "null") + "]}}", "Too many: 6000"},
		{
			"YAML", "POST", in + "pods", "application/yaml",
			"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n" + strings.Repeat("  - {}\n", 6000),
			"spec.containers: Too many: 6000",
		},
		{"protobuf", "POST", in + "pods", "application/vnd.kubernetes.protobuf", wire.String(), "spec.containers: Too many: 40000"},
		{"a replacement", "PUT", pod, "application/json", head + many(6000, "{}") + "]}}", `Pod \"p\" is invalid: spec.containers: Too many: 6000`},
		{
			"a merge patch", "PATCH", pod, "application/merge-patch+json",
			`{"metadata": {"ownerReferences": [` + many(6000, "{}") + "]}}", "metadata.ownerReferences: Too many: 6000",
		},
		{
			"a strategic merge patch", "PATCH", pod, "application/strategic-merge-patch+json",
			`{"spec": {"tolerations": [` + many(6000, "{}") + "]}}", "spec.tolerations: Too many: 6000",
		},
		{
			"a JSON patch", "PATCH", pod, "application/json-patch+json",
			`[{"op": "add", "path": "/spec/tolerations", "value": [` + many(6000, "{}") + "]}]", "[0].value: Too many: 6000",
		},
		{
			"many operations of a JSON patch", "PATCH", pod, "application/json-patch+json",
			`[` + many(6000, `{"op": "add", "path": "/metadata/ownerReferences/-", "value": {}}`) + "]", "",
		},
		{"operations that add", "PATCH", pod, "application/json-patch+json", `[{"op": "add", "path": "/spec/tolerations", "value": []}, ` + many(
			6000, `{"op": "add", "path": "/spec/tolerations/-", "value": {}}`,
		) + "]",
			"spec.tolerations: Too many: 6000: must have at most 5000 items"},
		{
			"server-side apply", "PATCH", pod + "?fieldManager=m", "application/apply-patch+yaml",
			head + many(6000, "{}") + "]}}", "spec.containers: Too many: 6000",
		},
		{
			"a part of a pod", "PATCH", pod + "/ephemeralcontainers", "application/strategic-merge-patch+json",
			`{"spec": {"ephemeralContainers": [` + many(6000, `{"name": "x"}`) + "]}}",
			"spec.ephemeralContainers: Too many: 6000",
		},
		{
			"a question", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json",
			`{"spec": {"resourceAttributes": {"fieldSelector": {"requirements": [` + many(6000, "{}") + "]}}}}", "Too many: 6000",
		},
		{
			"texts", "POST", in + "configmaps", "application/json", `{"metadata": {"finalizers": [` + many(6000, `"a/b"`) + "]}}",
			"metadata.finalizers: Too many: 6000",
		},
		{
			"texts in a question", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json",
			`{"metadata": {"finalizers": [` + many(6000, `"a/b"`) + "]}}", "metadata.finalizers: Too many: 6000",
		},
		{
			"texts of a patch", "PATCH", pod, "application/strategic-merge-patch+json", `{"metadata": {"finalizers": [` + many(6000, `"a/b"`) + "]}}",
			"Too many: 6000",
		},
		{
			"aliases", "POST", in + "pods", "application/yaml", "apiVersion: v1\nkind: Pod\nmetadata: {annotations: &a [" + many(1000, "{}") + "]}\n" +
				"spec: {containers: [" + many(60, "{env: *a}") + "]}", "Too many: 50001: must have at most 50000 items",
		},
		{
			"server-side apply of texts", "PATCH", pod + "?fieldManager=m", "application/apply-patch+yaml",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  finalizers:\n" + strings.Repeat("  - a/b\n", 6000), "metadata.finalizers: Too many: 6000",
		},
		{
			"keys", "POST", in + "pods", "application/json", `{"metadata": {"labels": {` + many(20001, `"a": "b"`) + "}}}",
			"metadata.labels: Too many: 20001: must have at most 20000 items",
		},
		{
			"texts that add up", "PATCH", pod, "application/json-patch+json", `[{"op": "add", "path": "/metadata/finalizers", "value": []}, ` +
				many(6000, `{"op": "add", "path": "/metadata/finalizers/-", "value": "a/b"}`) + "]", "metadata.finalizers: Too many: 6000",
		},
		{
			"managed fields", "POST", in + "configmaps", "application/json",
			`{"metadata": {"managedFields": [{"fieldsV1": {` + many(20001, `"f:a": {}`) + "}}]}}",
			"metadata.managedFields[0].fieldsV1: Too many: 20001",
		},
		{"a deletion", "DELETE", in + "pods", "application/json", `{"dryRun": [` + many(6000, "{}") + "]}", "Too many: 6000"},
		{"managed fields in protobuf", "POST", in + "configmaps", "application/vnd.kubernetes.protobuf",
			unnamed(t, &corev1.ConfigMap{ObjectMeta: managedBy(1, 100_000, func(i int) int { return 100_000 - i })}),
			"metadata.managedFields[0].fieldsV1.f:data: Too many: 100000"},
		{"a deletion in protobuf", "DELETE", in + "pods", "application/vnd.kubernetes.protobuf", unnamed(t, &metav1.DeleteOptions{
			DryRun: slices.Repeat([]string{"All"}, 6000),
		}), "dryRun: Too many: 6000"},
		{"an eviction that does not say so", "POST", pod + "/eviction", "application/vnd.kubernetes.protobuf", unnamed(t, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Finalizers: slices.Repeat([]string{"a/b"}, 6000)},
		}), "metadata.finalizers: Too many: 6000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, said := ts.do(t, c.method, c.path, c.form, c.body)
			if c.says == "" { // refused by the library
				if code < 400 || code >= 500 {
					t.Errorf("%d %.300s", code, said)
				}
				return
			}
			want := 422
			if c.form == inProtobuf && c.method != "DELETE" {
				want = 400 // its decoder says so
			}
			if code != want || !strings.Contains(said, c.says) {
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
	managed := corev1.ConfigMap{ObjectMeta: managedBy(6, 15000, func(i int) int { return i }), Data: map[string]string{}}
	for i := range 15000 {
		managed.Data[fmt.Sprintf("key-%06d", i)] = ""
	}
	changed, err := json.Marshal(managed)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"a ConfigMap of 15,000 keys that six have changed": {in + "configmaps", string(changed)},
		"a ConfigMap of 20,000 keys":                       {in + "configmaps", `{"metadata": {"name": "c"}, "data": {` + numbered(20000, `"k%d": "v"`) + `}}`},
		"a pod with 1,000 variables": {
			in + "pods",
			`{"metadata": {"name": "e"}, "spec": {"containers": [{"name": "c", "image": "i", "env": [` + numbered(
				1000, `{"name": "V%d", "value": "x"}`,
			) + `]}]}}`,
		},
		"a pod with 20,000 arguments": {
			in + "pods",
			`{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "args": [` + many(20000, `"x"`) + `]}]}}`,
		},
		"a policy of 3,000 blocks": {
			"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
			`{"metadata": {"name": "n"}, "spec": {"podSelector": {}, "egress": [{"to": [` + many(3000, `{"ipBlock": {"cidr": "10.0.0.0/8"}}`) + `]}]}}`,
		},
		"a Role of 1,000 rules": {
			"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
			`{"metadata": {"name": "r"}, "rules": [` + numbered(1000, `{"apiGroups": [""], "resources": ["r%d"], "verbs": ["get"]}`) + `]}`,
		},
		"an EndpointSlice of 1,000 members": {"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", string(endpoints)},
	} {
		t.Run(name, func(t *testing.T) {
			if code, said := ts.do(t, "POST", c[0], "application/json", c[1]); code != 201 {
				t.Errorf("%d %.300s", code, said)
			}
		})
	}
}

// The arguments of a container are not bounded, however they come.
func TestManyArgumentsOfAPatch(t *testing.T) {
	ts := startServer(t)
	const path = "/apis/batch/v1/namespaces/default/cronjobs"
	ts.mustDo(t, "POST", path, `{"metadata": {"name": "a"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": `+
		`{"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}`, 201)
	const args = "/spec/jobTemplate/spec/template/spec/containers/0/args"
	for _, op := range []string{
		`"path": "` + args + `", "value": [` + many(20000, `"x"`) + `]`, `"value": [` + many(20000, `"y"`) + `], "path": "` + args + `"`,
	} {
		code, said := ts.do(t, "PATCH", path+"/a", "application/json-patch+json", `[{"op": "add", `+op+`}]`)
		if code != 200 {
			t.Errorf("%d %.300s", code, said)
		}
	}
}

func TestErrorsOfAnObjectAreBounded(t *testing.T) {
	ts := startServer(t)
	code, said := ts.do(
		t, "POST", "/api/v1/namespaces/default/pods", "application/json",
		`{"metadata": {"name": "p"}, "spec": {"containers": [`+many(elements.Most, "{}")+`]}}`,
	)
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
