package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/jobd/jobd/api/scheme"
)

// wire returns an object in protobuf, in which a text is replaced by one as long.
func wire(t *testing.T, obj runtime.Object, text, by string) string {
	t.Helper()
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err != nil || len(text) != len(by) {
		t.Fatal(err)
	}
	if !bytes.Contains(b.Bytes(), []byte(text)) {
		t.Fatal(text)
	}
	return strings.Replace(b.String(), text, by, 1)
}

// TestQuantitiesThatTakeHours sends quantities that no parser gets done with, in each form that a body can have. Each would run for
// hours after its request has been given up.
func TestQuantitiesThatTakeHours(t *testing.T) {
	ts := startServer(t)
	const (
		in, pod = "/api/v1/namespaces/default/", "/api/v1/namespaces/default/pods/p"
		review  = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
		asJSON  = "application/json"
		asYAML  = "application/yaml"
		wired   = "application/vnd.kubernetes.protobuf"
		json6   = "application/json-patch+json"
		merge   = "application/merge-patch+json"
		strateg = "application/strategic-merge-patch+json"
		apply   = "application/apply-patch+yaml"
		says    = "spec.overhead.memory: Invalid value: "
		inPod   = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}, "spec": {"overhead": {"memory": %s}, "containers": [{"name": "c", "image": "i"}]}}`
	)
	ts.mustDo(
		t, "POST", in+"pods",
		`{"metadata": {"name": "p", "annotations": {"a": "1e-2000000000"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`,
		201,
	)
	ts.mustDo(t, "POST", in+"resourcequotas", `{"metadata": {"name": "r"}, "spec": {"hard": {"memory": "1Gi"}}}`, 201)
	overhead := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	overhead.Spec.Overhead = corev1.ResourceList{"memory": apiresource.MustParse("12345678912m")}
	untold := overhead.DeepCopy()
	untold.TypeMeta = metav1.TypeMeta{}
	for _, c := range []struct {
		name, method, path, form, body string
		code                           int
		says                           string
	}{
		{"text", "POST", in + "pods", asJSON, fmt.Sprintf(inPod, `"1e-2000000000"`), 400, says},
		{"a number", "POST", in + "pods", asJSON, fmt.Sprintf(inPod, `1e-2000000000`), 400, says},
		{"without a type", "POST", in + "pods", "", fmt.Sprintf(inPod, `1e-2000000000`), 400, says},
		{"a large one", "POST", in + "pods", asJSON, fmt.Sprintf(inPod, `"1e2000000000"`), 400, says},
		{"millions of digits", "POST", in + "pods", asJSON, fmt.Sprintf(inPod, `"`+strings.Repeat("1", 2_900_000)+`"`), 400, says},
		{"a key that is escaped", "POST", in + "pods", asJSON, strings.Replace(fmt.Sprintf(inPod, `1e-2000000000`), "overhead", `\u006fverhead`, 1), 400, says},
		{"YAML", "POST", in + "pods", asYAML,
			"apiVersion: v1\nkind: Pod\nspec:\n  overhead:\n    memory: 1e-\\\n      2000000000\n    memory: \"1e-\\\n      2000000000\"\n", 400, ""},
		{"an alias", "POST", in + "pods", asYAML, "kind: Pod\nmetadata: {annotations: {a: &a '1e-2000000000'}}\nspec: {overhead: {memory: *a}}", 400, says},
		{"protobuf", "POST", in + "pods", wired, wire(t, overhead, "12345678912m", "1e-200000000"), 400, says[:13]},
		{"protobuf that does not say what it is", "POST", in + "pods", wired, wire(t, untold, "12345678912m", "1e-200000000"), 400, says[:13]},
		{"another kind than the resource's", "POST", review, asJSON, fmt.Sprintf(inPod, `"1e-2000000000"`), 400, "SelfSubjectAccessReview"},
		{"another kind in protobuf", "POST", review, wired, wire(t, overhead, "12345678912m", "1e-200000000"), 400, "SelfSubjectAccessReview"},
		{"a deletion", "DELETE", pod, asJSON, fmt.Sprintf(inPod, `"1e-2000000000"`), 400, ""},
		{"a deletion of all", "DELETE", in + "pods", asJSON, fmt.Sprintf(inPod, `"1e-2000000000"`), 400, ""},
		{"a replacement", "PUT", in + "resourcequotas/r", asJSON,
			`{"metadata": {"name": "r"}, "spec": {"hard": {"memory": "1e-2000000000"}}}`, 400, "spec.hard.memory"},
		{"a JSON patch", "PATCH", in + "resourcequotas/r", json6, `[{"op": "add", "path": "/spec/hard/memory", "value": "1e-2000000000"}]`,
			422, "spec.hard.memory"},
		{
			"a copy", "PATCH", pod, json6,
			`[{"op": "add", "path": "/spec/overhead", "value": {}}, {"op": "copy", "from": "/metadata/annotations/a", "path": "/spec/overhead/memory"}]`,
			422, says,
		},
		{"a merge patch", "PATCH", pod, merge, `{"spec": {"overhead": {"memory": "\u0031e-2000000000"}}}`, 422, says},
		{"a strategic merge patch", "PATCH", pod, strateg, `{"spec": {"overhead": {"memory": "\u0031e-2000000000"}}}`, 422, says},
		{"an odd type", "PATCH", pod, strateg + "; =", `{"spec": {"overhead": {"memory": 1e-2000000000}}}`, 422, says},
		{"server-side apply", "PATCH", pod + "?fieldManager=m", apply, fmt.Sprintf(strings.ReplaceAll(inPod, `"q"`, `"p"`), `1e-2000000000`), 422, says},
		{"apply in YAML", "PATCH", pod + "?fieldManager=m", apply,
			"apiVersion: v1\nkind: Pod\nmetadata: {annotations: {a: &a 1e-2000000000}}\nspec: {overhead: {memory: '1e-2000000000'}}", 422, says},
		{"apply of another kind", "PATCH", in + "configmaps/c?fieldManager=m", apply,
			fmt.Sprintf(strings.ReplaceAll(inPod, `"q"`, `"c"`), `"1e-2000000000"`), 400, ""},
		{"a part of a pod", "PATCH", pod + "/status", strateg,
			`{"status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": 1e-2000000000}}]}}`, 422, "allocatedResources.cpu"},
		{"a resize", "PATCH", pod + "/resize", strateg,
			`{"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1e-2000000000}}}]}}`, 422, "limits.cpu"},
		{"an eviction of another kind", "POST", pod + "/eviction", asJSON, fmt.Sprintf(inPod, `"1e-2000000000"`), 400, "Eviction"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			code, said := ts.do(t, c.method, c.path, c.form, c.body)
			if code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("%d %.400s", code, said)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	ts.mustDo(t, "GET", pod, "", 200)
}

// Large quantities are taken as a cluster takes them, and given back as they came.
func TestLargeQuantities(t *testing.T) {
	ts := startServer(t)
	const path = "/api/v1/namespaces/default/resourcequotas"
	for sent, want := range map[string]string{
		`"1e30"`: "1e30", `1e30`: "1e30", `"1e400"`: "10e399", `"` + strings.Repeat("9", 62) + `Ei"`: "",
	} {
		cluster := apiresource.MustParse(strings.Trim(sent, `"`))
		if want == "" {
			want = cluster.String()
		}
		said := ts.mustDo(t, "POST", path, `{"metadata": {"generateName": "r"}, "spec": {"hard": {"memory": `+sent+`}}}`, 201)
		if !strings.Contains(said, `"hard":{"memory":"`+want+`"}`) || cluster.String() != want {
			t.Errorf("%.40s is %.400s, want %s", sent, said, want)
		}
	}
}

// What stands where any text may stand is not refused.
func TestDigitsWhereAnyTextMayStand(t *testing.T) {
	ts := startServer(t)
	const in = "/api/v1/namespaces/default/"
	digits := strings.Repeat("7", 3000)
	for _, c := range [][2]string{
		{in + "secrets", `{"metadata": {"name": "s", "annotations": {"requests": "1e-2000000000"}}, "stringData": {"memory": "` + digits + `"}}`},
		{in + "configmaps", `{"metadata": {"name": "c"}, "data": {"sizeLimit": "1e-2000000000", "n": "` + digits + `"}}`},
		{in + "pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "args": ["1e-2000000000"], "env": [{"name": "N", "value": "` + digits + `"}],
			"resources": {"limits": {"cpu": "1e3"}}}]}}`},
	} {
		ts.mustDo(t, "POST", c[0], c[1], 201)
	}
	if code, said := ts.do(t, "PATCH", in+"configmaps/c", "application/strategic-merge-patch+json", `{"data": {"memory": "1e-2000000000"}}`); code != 200 {
		t.Errorf("%d %.300s", code, said)
	}
}

// TestStrictErrorsAreBounded: a body of 3 MiB could be answered with seven times as much.
func TestStrictErrorsAreBounded(t *testing.T) {
	ts := startServer(t)
	const path = "/api/v1/namespaces/default/configmaps?fieldValidation=Strict"
	head := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	twice := func(n int) (json string) {
		for i := range n {
			json += fmt.Sprintf(`,"f%d":1`, i)
		}
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}` + json + "}"
	}
	for name, c := range map[string]struct {
		kind, body, want string
	}{
		"keys of YAML that are there twice": {"application/yaml", head + "data:\n" + strings.Repeat("  a: b\n", 20_000), `line 6: key \"a\" already set`},
		"fields that nobody knows":          {"application/json", twice(5000), `unknown field \"f0\"`},
		"few":                               {"application/json", twice(2), `unknown field \"f1\"`},
	} {
		code, said := ts.do(t, "POST", path, c.kind, c.body)
		if code != http.StatusBadRequest || len(said) > 4*maxSaid || !strings.Contains(said, c.want) {
			t.Errorf("%s: %d, %d bytes: %.300s", name, code, len(said), said)
		}
	}
}
