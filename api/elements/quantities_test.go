package elements

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/internal/quantity"
)

// quantities calls f after it has set each quantity of a type, one after another.
func quantities(v reflect.Value, path string, to resource.Quantity, f func(path string)) {
	if v.Type() == quantityType {
		v.Set(reflect.ValueOf(to))
		f(path)
		v.SetZero()
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		quantities(v.Elem(), path, to, f)
		v.SetZero()
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && strings.Count(path, ".") < 12 && reachesQuantities(field.Type, nil) {
				quantities(v.Field(i), path+jsonName(field), to, f)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		quantities(v.Index(0), path+"[0]", to, f)
		v.SetZero()
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString("memory")
		quantities(value, path+".memory", to, func(path string) {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, value)
			f(path)
		})
		v.SetZero()
	}
}

func reachesQuantities(t reflect.Type, within []reflect.Type) bool {
	if t == quantityType {
		return true
	}
	for _, other := range within {
		if t == other {
			return false
		}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return reachesQuantities(t.Elem(), within)
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && reachesQuantities(t.Field(i).Type, append(within, t)) {
				return true
			}
		}
	}
	return false
}

// TestEveryQuantityOfEveryKind writes each quantity of each kind so large that nothing should parse it, in JSON and in protobuf.
func TestEveryQuantityOfEveryKind(t *testing.T) {
	is := resource.MustParse("12345678912345m")
	seen := 0
	for _, k := range scheme.Kinds() {
		gvk := k.GroupVersion.WithKind(k.Name)
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		of := reflect.TypeOf(obj).Elem()
		quantities(reflect.ValueOf(obj).Elem(), "", is, func(path string) {
			seen++
			path = strings.TrimPrefix(path, ".")
			want := fmt.Sprintf("%s: Invalid value: %q: the exponent of a quantity must be from -400 to 400", path, "1e-200000000000")
			text, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			if err := QuantitiesInJSON(text, of); err != nil {
				t.Error(err)
			}
			for name, written := range map[string]string{
				"text": `"1e-200000000000"`, "number": `1e-200000000000`, "escaped": `"\u0031e-200000000000"`, "spaces": `" 1e-200000000000"`,
			} {
				body := strings.Replace(string(text), `"12345678912345m"`, written, 1)
				if got := fmt.Sprint(QuantitiesInJSON([]byte(body), of)); got != want {
					t.Errorf("%s %s as a %s: %s", gvk.Kind, path, name, got)
				}
			}
			if _, ok := obj.(interface{ Marshal() ([]byte, error) }); !ok {
				return
			}
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			var b bytes.Buffer
			if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err != nil {
				t.Fatal(err)
			}
			if err := QuantitiesInProtobuf(b.Bytes(), reflect.TypeOf(obj).Elem()); err != nil {
				t.Error(err)
			}
			body := bytes.Replace(b.Bytes(), []byte("12345678912345m"), []byte("1e-200000000000"), 1)
			got := fmt.Sprint(QuantitiesInProtobuf(body, of))
			if i := strings.LastIndex(path, "."); strings.HasSuffix(path, ".memory") {
				want = strings.Replace(want, path, path[:i]+"[memory]", 1)
			}
			if got != want {
				t.Errorf("%s %s in protobuf: %s, want %s", gvk.Kind, path, got, want)
			}
		})
	}
	if seen < 80 {
		t.Errorf("only %d quantities were seen", seen)
	}
}

// What is no quantity can be any text, where it stands beside one too.
func TestTextsThatAreNoQuantities(t *testing.T) {
	digits, exponent := strings.Repeat("7", 3000), "1e-2000000000"
	for _, obj := range []runtime.Object{
		&corev1.ConfigMap{Data: map[string]string{"memory": exponent, "requests": digits, "sizeLimit": exponent}},
		&corev1.Secret{StringData: map[string]string{"limits": exponent}, Data: map[string][]byte{"cpu": []byte(digits)}},
		&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Args: []string{exponent}, Command: []string{digits}, Env: []corev1.EnvVar{{Name: "memory", Value: exponent}, {Name: "N", Value: digits}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1e3")}},
		}}, Overhead: corev1.ResourceList{"1e-2000000000": resource.MustParse("1")}}},
		&batchv1.Job{},
	} {
		accessor := obj.(interface{ SetAnnotations(map[string]string) })
		accessor.SetAnnotations(map[string]string{"requests": exponent, "divisor": digits, "sizeLimit": `\u0031`})
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		if err := QuantitiesInJSON(text, reflect.TypeOf(obj).Elem()); err != nil {
			t.Error(err)
		}
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			t.Fatal(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
		var b bytes.Buffer
		if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err != nil {
			t.Fatal(err)
		}
		if err := QuantitiesInProtobuf(b.Bytes(), reflect.TypeOf(obj).Elem()); err != nil {
			t.Error(err)
		}
	}
}

func TestQuantitiesInOddBodies(t *testing.T) {
	pod := reflect.TypeFor[corev1.Pod]()
	long := strings.Repeat("1", quantity.MaxLength+1)
	for _, c := range []struct{ body, want string }{
		{`{"spec":{"overhead":{"cpu":"` + long + `"}}}`, `spec.overhead.cpu: Invalid value: "` + long[1:] + `": a quantity must have at most 400 characters`},
		{`{"\u0073pec":{"over\u0068ead":{"cpu":1e999}}}`,
			`spec.overhead.cpu: Invalid value: "1e999": the exponent of a quantity must be from -400 to 400`},
		{`{"spec":{"overhead":{"cpu":"1"}},"spec":{"overhead":{"cpu":1e999}}}`,
			`spec.overhead.cpu: Invalid value: "1e999": the exponent of a quantity must be from -400 to 400`},
		{`{"spec":[{"overhead":{"cpu":1e999}}]}`, `<nil>`}, // which no decoder takes
		{`{"spec":{"unknown":{"overhead":{"cpu":1e999}}}}`, `<nil>`},
		{`{"spec":{"overhead":{"cpu":{"a":1e999}}}}`, `<nil>`},
		{`1e999`, `<nil>`}, {`[1e999`, `<nil>`}, {`}1e999`, `<nil>`}, {`{"a":"1e999`, `<nil>`}, {``, `<nil>`},
	} {
		if got := fmt.Sprint(QuantitiesInJSON([]byte(c.body), pod)); got != c.want {
			t.Errorf("%.80s: %s", c.body, got)
		}
	}
	if err := QuantitiesInJSON([]byte(`{"a":1e999}`), nil); err != nil {
		t.Error(err)
	}
	if err := QuantitiesInProtobuf([]byte("k8s\x00 1e999"), pod); err != nil {
		t.Error(err)
	}
}

func FuzzQuantities(f *testing.F) {
	f.Add([]byte(`{"spec":{"overhead":{"memory":"1e-999"}}}`))
	f.Add([]byte(`{"spec":{"containers":[{"resources":{"limits":{"cpu":1e999}}}]}}`))
	f.Add([]byte("k8s\x00\x0a\x02v1 1e999"))
	pod := reflect.TypeFor[corev1.Pod]()
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = QuantitiesInJSON(b, pod)
		_ = QuantitiesInProtobuf(b, pod)
	})
}

func BenchmarkQuantities(b *testing.B) {
	job := &batchv1.Job{}
	job.Name = "job"
	job.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "c", Image: "docker.io/library/busybox:1.36", Args: []string{"sh", "-c", "echo hello; sleep 10"},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")}},
	}}
	job.SetGroupVersionKind(schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"})
	plain, err := json.Marshal(job)
	if err != nil {
		b.Fatal(err)
	}
	job.Annotations = map[string]string{"a": "1e1000"}
	suspect, err := json.Marshal(job)
	if err != nil {
		b.Fatal(err)
	}
	for name, body := range map[string][]byte{"plain": plain, "suspect": suspect} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := QuantitiesInJSON(body, reflect.TypeFor[batchv1.Job]()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
