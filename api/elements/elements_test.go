package elements

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/scheme"
)

// lists calls f with every list of structs of a type, one within another included, and its path.
func lists(v reflect.Value, path string, f func(path string, list reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if hasLists(v.Type().Elem()) {
			v.Set(reflect.New(v.Type().Elem()))
			lists(v.Elem(), path, f)
			v.SetZero()
		}
	case reflect.Struct:
		for _, i := range listsIn(v.Type()) {
			lists(v.Field(i), path+jsonName(v.Type().Field(i)), f)
		}
	case reflect.Slice:
		f(path, v)
		if hasLists(v.Type().Elem()) && strings.Count(path, "[") < 3 { // some contain themselves
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			lists(v.Index(0), path+"[0]", f)
		}
		v.SetZero()
	}
}

// TestEveryListOfEveryKind fills each list of each kind once too often, and looks at what clients would send.
func TestEveryListOfEveryKind(t *testing.T) {
	seen := 0
	for _, k := range scheme.Kinds() {
		gvk := k.GroupVersion.WithKind(k.Name)
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		lists(reflect.ValueOf(obj).Elem(), "", func(path string, list reflect.Value) {
			path = strings.TrimPrefix(path, ".")
			if strings.Contains(path, "template.") && gvk.Kind != "Job" || strings.HasPrefix(path, "metadata.") && gvk.Kind != "Pod" {
				return // once is enough
			}
			seen++
			for _, n := range []int{1, Most + 1} {
				list.Set(reflect.MakeSlice(list.Type(), n, n))
				if list.Type().Elem().Kind() == reflect.Pointer {
					for i := range n {
						list.Index(i).Set(reflect.New(list.Type().Elem().Elem()))
					}
				}
				want := ""
				if n > Most {
					want = fmt.Sprintf("%s: Too many: %d: must have at most %d items", path, n, Most)
				}
				check(t, gvk, obj, want)
			}
		})
	}
	if seen < 150 {
		t.Errorf("only %d lists were seen", seen)
	}
}

func check(t *testing.T, gvk schema.GroupVersionKind, obj runtime.Object, want string) {
	t.Helper()
	says := func(form string, err *field.Error) {
		t.Helper()
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%s as %s: %v, want %q", gvk.Kind, form, err, want)
		}
	}
	says("an object", InObject(obj))
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(gvk, err)
	}
	says("JSON", InJSON(text, false))
	if _, ok := obj.(interface{ Marshal() ([]byte, error) }); ok {
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		var b bytes.Buffer
		if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err == nil {
			says("protobuf", InProtobuf(b.Bytes(), scheme.Scheme))
		}
	}
}

func TestYAML(t *testing.T) {
	many := &corev1.Pod{}
	many.Spec.Volumes = make([]corev1.Volume, Most+1)
	block, err := yaml.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	const refused = "spec.volumes: Too many: 5001: must have at most 5000 items"
	repeat := func(s string, n int) string { return strings.Repeat(s, n) }
	for _, c := range []struct{ name, body, want string }{
		{"blocks", string(block), refused},
		{"flow", "spec: {volumes: [" + repeat("{}, ", Most+1) + "]}", refused},
		{"quotes that JSON does not have", `{x: '"', spec: {volumes: [` + repeat("{}, ", Most+1) + "]}}", refused},
		{"JSON", `{"spec": {"volumes": [` + repeat("null,", Most) + "null]}}", refused},
		{"aliases", "a: &a [" + repeat("{}, ", 1000) + "]\nspec: {containers: [" + repeat("{env: *a}, ", 60) + "]}",
			"spec.containers[48].env: Too many: 50001: must have at most 50000 items"},
		{"a text of many lines", "data:\n  script: |\n" + repeat("    - a, b & c * d\n", 3*Most), ""},
		{"what is no YAML", "a: [" + repeat("{},", 2*Most), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := InYAML([]byte(c.body), func() error { return nil })
			if said := fmt.Sprint(got); err != nil || got == nil && c.want != "" || got != nil && said != c.want {
				t.Errorf("%v %v", got, err)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	repeat := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	for _, c := range []struct {
		name, body string
		patch      bool
		want       string
	}{
		{"small", `{"a": [{}, {}]}`, false, ""},
		{"texts and numbers", `{"a": [` + repeat(`"b", 1, true`, Most) + `]}`, false, ""},
		{"keys of a map", `{"data": {` + repeat(`"k": {}`, 2*Most) + `}}`, false, ""},
		{"as many as may be", `{"a": [` + repeat(`{}`, Most) + `]}`, false, ""},
		{"null", `{"a": [` + repeat(`null`, Most+1) + `]}`, false, "a: Too many: 5001: must have at most 5000 items"},
		{"lists of lists", `{"a": [` + repeat(`[]`, Most+1) + `]}`, false, "a: Too many: 5001: must have at most 5000 items"},
		{"brackets and quotes in texts", `{"a": ["[{\"", "\\"], "b": {"]": [` + repeat(`{"x": "]}"}`, Most+7) + `]}}`, false, "b.]: Too many: 5007: must have at most 5000 items"},
		{"within another one", `{"a": [1, {"b": [` + repeat(`{}`, Most+1) + `]}]}`, false, "a[1].b: Too many: 5001: must have at most 5000 items"},
		{"many lists", `{"a": [` + repeat(`{"b": [`+repeat(`{}`, 99)+`]}`, 501) + `]}`, false, "a: Too many: 50001: must have at most 50000 items"},
		{"operations of a patch", `[` + repeat(`{"op": "test"}`, 2*Most) + `]`, true, ""},
		{"a list in a patch", `[{"op": "add", "value": [` + repeat(`{}`, Most+1) + `]}]`, true, "[0].value: Too many: 5001: must have at most 5000 items"},
		{"no end", `{"a": [` + strings.Repeat(`{},`, Most+1), false, "a: Too many: 5002: must have at most 5000 items"},
		{"too deep", strings.Repeat(`[`, 1<<20) + strings.Repeat(`,`, Most), false, ""},
		{"no JSON", strings.Repeat(`]},"`, 2*Most), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := InJSON([]byte(c.body), c.patch)
			if said := fmt.Sprint(got); got == nil && c.want != "" || got != nil && said != c.want {
				t.Error(said)
			}
		})
	}
}

func FuzzBodies(f *testing.F) {
	pad := strings.Repeat(",", 2*Most)
	for _, s := range []string{`{"a":[{}]}`, "k8s\x00\x0a\x02v1", `["\`, `[n`, `{"a`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		b = append(b, pad...)
		_ = InJSON(b, false)
		_ = InProtobuf(b, scheme.Scheme)
	})
}

func BenchmarkJSON(b *testing.B) {
	body := []byte(`{"spec":{"containers":[` + strings.Repeat(`{"name":"a","env":[{"name":"b","value":"c"}]},`, Most-1) + `{}]}}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		InJSON(body, false)
	}
}
