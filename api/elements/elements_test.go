package elements

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/scheme"
)

// eachList calls f with every list and every map of a type, one within another included, and its path.
func eachList(v reflect.Value, path string, f func(path string, list reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if lists.leads(v.Type().Elem()) {
			v.Set(reflect.New(v.Type().Elem()))
			eachList(v.Elem(), path, f)
			v.SetZero()
		}
	case reflect.Struct:
		for _, i := range lists.in(v.Type()) {
			eachList(v.Field(i), path+jsonName(v.Type().Field(i)), f)
		}
	case reflect.Map:
		f(path, v)
		v.SetZero()
	case reflect.Slice:
		f(path, v)
		if lists.leads(v.Type().Elem()) && strings.Count(path, "[") < 3 { // some contain themselves
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			eachList(v.Index(0), path+"[0]", f)
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
		eachList(reflect.ValueOf(obj).Elem(), "", func(path string, list reflect.Value) {
			path = strings.TrimPrefix(path, ".")
			if strings.Contains(path, "template.") && gvk.Kind != "Job" || strings.HasPrefix(path, "metadata.") && gvk.Kind != "Pod" {
				return // once is enough
			}
			seen++
			most := Most
			if list.Kind() == reflect.Map {
				most = mostKeys
			}
			for _, n := range []int{1, most + 1} {
				fill(list, n)
				want := ""
				if n > most {
					want = fmt.Sprintf("%s: Too many: %d: must have at most %d items", path, n, most)
				}
				check(t, gvk, obj, want)
			}
		})
	}
	if seen < 150 {
		t.Errorf("only %d lists were seen", seen)
	}
}

// fill makes a list or a map of n elements.
func fill(v reflect.Value, n int) {
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
		for i := range n {
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", i)).Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		}
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	if v.Type().Elem().Kind() == reflect.Pointer {
		for i := range n {
			v.Index(i).Set(reflect.New(v.Type().Elem().Elem()))
		}
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
			says("protobuf", InProtobuf(b.Bytes(), reflect.TypeOf(obj).Elem()))
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
			asJSON, err := ToJSON([]byte(c.body), func() error { return nil })
			got := InJSON(asJSON, false)
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
		{"as many texts as may be", `{"a": [` + repeat(`"b"`, Most) + `]}`, false, ""},
		{"texts, numbers and booleans", `{"a": [` + repeat(`"b", 1, true`, Most) + `]}`, false, "a: Too many: 15000: must have at most 5000 items"},
		{"arguments", `{"args": [` + repeat(`"b", 1, true`, mostSmall) + `]}`, false, ""},
		{"keys of a map", `{"data": {` + repeat(`"k": {}`, mostKeys) + `}}`, false, ""},
		{"too many of them", `{"a": {"data": {` + repeat(`"k": ""`, mostKeys+1) + `}}}`, false, "a.data: Too many: 20001: must have at most 20000 items"},
		{"many maps", `{"a": [` + repeat(`{"m": {`+repeat(`"k": ""`, mostKeys)+`}}`, 6) + `]}`, false,
			"a[5].m: Too many: 100001: must have at most 100000 items"},
		{"many lists of texts", `{"a": [` + repeat(`{"m": [`+repeat(`"k"`, Most)+`]}`, 21) + `]}`, false,
			"a[20].m: Too many: 100001: must have at most 100000 items"},
		{"many objects", `{"a": [` + repeat(`{"b": "c", "d": "e", "f": {"g": "h"}}`, Most) + `]}`, false, ""},
		{"as many as may be", `{"a": [` + repeat(`{}`, Most) + `]}`, false, ""},
		{"null", `{"a": [` + repeat(`null`, Most+1) + `]}`, false, "a: Too many: 5001: must have at most 5000 items"},
		{"lists of lists", `{"a": [` + repeat(`[]`, Most+1) + `]}`, false, "a: Too many: 5001: must have at most 5000 items"},
		{
			"brackets and quotes in texts", `{"a": ["[{\"", "\\"], "b": {"]": [` + repeat(`{"x": "]}"}`, Most+7) + `]}}`, false,
			"b.]: Too many: 5007: must have at most 5000 items",
		},
		{"within another one", `{"a": [1, {"b": [` + repeat(`{}`, Most+1) + `]}]}`, false, "a[1].b: Too many: 5001: must have at most 5000 items"},
		{"many lists", `{"a": [` + repeat(`{"b": [`+repeat(`{}`, 99)+`]}`, 501) + `]}`, false, "a: Too many: 50001: must have at most 50000 items"},
		{"operations of a patch", `[` + repeat(`{"op": "test"}`, 2*Most) + `]`, true, ""},
		{"a list in a patch", `[{"op": "add", "value": [` + repeat(`{}`, Most+1) + `]}]`, true, "[0].value: Too many: 5001: must have at most 5000 items"},
		{"arguments in a patch", `[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": [` + repeat(`"b"`, mostSmall) + `]}]`, true, ""},
		{"said behind them", `[{"value": [` + repeat(`"b"`, Most+1) + `], "path": "/spec/containers/0/command"}]`, true, ""},
		{"said with escapes", `[{"value": [` + repeat(`"b"`, Most+1) + `], "path": "/spec/containers/0/\u0061rgs"}]`, true, ""},
		{"said twice", `[{"path": "/spec/containers/0/args", "value": [` + repeat(`"b"`, Most+1) + `], "path": "/metadata/finalizers"}]`, true,
			"[0].value: Too many: 5001: must have at most 5000 items"},
		{"finalizers in a patch", `[{"path": "/metadata/finalizers", "value": [` + repeat(`"b"`, Most+1) + `]}]`, true,
			"[0].value: Too many: 5001: must have at most 5000 items"},
		{"objects for arguments", `[{"path": "/spec/args", "value": [` + repeat(`{}`, Most+1) + `]}]`, true,
			"[0].value: Too many: 5001: must have at most 5000 items"},
		{"very many values", `[{` + repeat(`"value":[]`, mostKeys) + `}]`, true, ""},
		{"a path that is none", `[{"path": 1, "value": [` + repeat(`"b"`, Most+1) + `]}]`, true, "[0].value: Too many: 5001: must have at most 5000 items"},
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
		_ = InProtobuf(b, reflect.TypeFor[corev1.Pod]())
	})
}

func BenchmarkJSON(b *testing.B) {
	body := []byte(`{"spec":{"containers":[` + strings.Repeat(`{"name":"a","env":[{"name":"b","value":"c"}]},`, Most-1) + `{}]}}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		InJSON(body, false)
	}
}

// managers returns the fields of managers of a ConfigMap of n keys, which are in an order.
func managers(count, n int, order func(i int) int) (entries []metav1.ManagedFieldsEntry) {
	for m := range count {
		var b strings.Builder
		b.WriteString(`{"f:data":{".":{}`)
		for i := range n {
			fmt.Fprintf(&b, `,"f:key-%06d":{}`, order(i))
		}
		b.WriteString(`},"f:metadata":{"f:labels":{"f:a":{}}}}`)
		entries = append(entries, metav1.ManagedFieldsEntry{Manager: fmt.Sprint(m), FieldsV1: &metav1.FieldsV1{}})
		entries[m].FieldsV1.SetRawBytes([]byte(b.String()))
	}
	return entries
}

func TestManagedFields(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	up := func(i int) int { return i }
	down := func(i int) int { return mostKeys - i }
	for _, c := range []struct {
		name    string
		keys    int
		entries []metav1.ManagedFieldsEntry
		refused string
	}{
		{"of six managers of 15,000 keys", 15000, managers(6, 15000, up), ""},
		{"of as many keys as there may be", 0, managers(10, mostKeys, up), ""},
		{"of more", 0, managers(1, mostKeys+1, up), "metadata.managedFields[0].fieldsV1.f:data: Too many: 20002: must have at most 20000 items"},
		{"in no order", 0, managers(4, 15000, down), ""},
		{"very many in no order", 0, managers(7, 15000, down),
			"metadata.managedFields[6].fieldsV1.f:data: Too many: 100001: must have at most 100000 items"},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: c.entries}, Data: map[string]string{}}
			for i := range c.keys {
				obj.Data[fmt.Sprintf("key-%06d", i)] = ""
			}
			check(t, gvk, obj, c.refused)
		})
	}
}

// What counts as in order is put at the end, whatever keys come before it.
func TestKeysInOrder(t *testing.T) {
	for _, c := range []struct {
		keys string
		want int // of those that are not in order
	}{
		{`f:a,f:b`, 0}, {`f:a,f:a`, 1}, {`f:b,f:a`, 1}, {`f:b,.,f:a`, 2}, {`k:{},f:a`, 2}, {`f:a,f:\u0062`, 1}, {`f:\u0062,f:c`, 2}, {`v:1,i:1,i:2`, 3},
	} {
		var last []byte
		got := 0
		for i, key := range strings.Split(c.keys, ",") {
			if !inOrder(i+1, last, []byte(key)) {
				got++
			}
			last = []byte(key)
		}
		if got != c.want {
			t.Errorf("%s: %d are not in order, want %d", c.keys, got, c.want)
		}
	}
}
