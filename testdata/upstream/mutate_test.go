package upstream

import (
	"math/rand/v2"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/jobd/jobd/api/openapi"
)

// mutator changes objects at random, but towards what rules look at: it knows the values of enumerations, takes strings
// from fields of the same name elsewhere, and keeps to the limits at which rules change their mind.
type mutator struct {
	*rand.Rand
	models map[string]common.OpenAPIDefinition
	words  map[string][]string // by the name of the field
}

func newMutator(seed uint64) *mutator {
	ref := func(path string) spec.Ref { return spec.MustCreateRef("#/" + path) }
	return &mutator{rand.New(rand.NewPCG(seed, 0)), openapi.GetOpenAPIDefinitions(ref), map[string][]string{}}
}

// site is a place in an object that can be changed, and the field that it is or that it is an element of.
type site struct {
	value reflect.Value
	owner reflect.Type
	field string
}

// handled are fields of metadata that no rule of a kind sees as the client has sent them.
var handled = map[string]bool{
	"ManagedFields": true, "ResourceVersion": true, "UID": true, "CreationTimestamp": true, "DeletionTimestamp": true,
	"DeletionGracePeriodSeconds": true, "SelfLink": true, "Namespace": true, "Generation": true, "GenerateName": true,
}

// leaves are types that are changed as a whole.
var leaves = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time]():        true,
	reflect.TypeFor[metav1.MicroTime]():   true,
	reflect.TypeFor[resource.Quantity]():  true,
	reflect.TypeFor[intstr.IntOrString](): true,
}

func sites(s site, visit func(site)) {
	switch v := s.value; v.Kind() {
	case reflect.Pointer:
		visit(s)
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			sites(site{v.Elem(), s.owner, s.field}, visit)
		}
	case reflect.Struct:
		if leaves[v.Type()] {
			visit(s)
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Type == reflect.TypeFor[metav1.TypeMeta]() || v.Type() == reflect.TypeFor[metav1.ObjectMeta]() && handled[f.Name] {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			sites(site{v.Field(i), v.Type(), name}, visit)
		}
	case reflect.Slice:
		visit(s)
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				sites(site{v.Index(i), s.owner, s.field}, visit)
			}
		}
	default:
		visit(s)
	}
}

// learn remembers the strings of an object for others.
func (m *mutator) learn(obj any) {
	sites(site{value: reflect.ValueOf(obj).Elem()}, func(s site) {
		v := s.value
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		if v.Kind() == reflect.String && v.Len() > 0 && v.Len() < 300 {
			m.words[s.field] = append(m.words[s.field], v.String())
		}
	})
}

// mutate changes some places of an object, and only below one field of it if that is named.
func (m *mutator) mutate(obj any, below string) {
	for range 1 + m.IntN(3) {
		var all []site
		v := reflect.ValueOf(obj).Elem()
		if below != "" {
			v = v.FieldByName(below)
		}
		sites(site{value: v}, func(s site) { all = append(all, s) })
		m.change(all[m.IntN(len(all))])
	}
}

func (m *mutator) change(s site) {
	v := s.value
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			m.fill(s, 0)
		} else if m.IntN(2) == 0 {
			v.SetZero()
		} else {
			m.change(site{v.Elem(), s.owner, s.field})
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			m.fill(s, 0)
			return
		}
		n := v.Len()
		switch which := m.IntN(8); {
		case n == 0 || which < 3:
			grown := reflect.Append(v, reflect.Zero(v.Type().Elem()))
			m.fill(site{grown.Index(n), s.owner, s.field}, 1)
			v.Set(grown)
		case which < 5:
			i := m.IntN(n)
			v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, n)))
		case which < 7:
			v.Set(reflect.Append(v, v.Index(m.IntN(n)))) // shares what is below it, and is changed with it
		default:
			for range 110 {
				v.Set(reflect.Append(v, v.Index(m.IntN(n))))
			}
		}
	case reflect.Map:
		if keys := v.MapKeys(); len(keys) > 0 && m.IntN(3) == 0 {
			v.SetMapIndex(keys[m.IntN(len(keys))], reflect.Value{})
			return
		}
		m.fill(s, 0)
	default:
		m.fill(s, 0)
	}
}

// fill sets a value, of a struct some of its fields.
func (m *mutator) fill(s site, depth int) {
	v := s.value
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.Unix(1e9+int64(m.IntN(3)), 0)))
		return
	case metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(metav1.Unix(1e9+int64(m.IntN(3)), 0).Time)))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse(choose(m, quantities))))
		return
	case intstr.IntOrString:
		if m.IntN(2) == 0 {
			v.Set(reflect.ValueOf(intstr.FromInt32(choose(m, []int32{-1, 0, 1, 80, 65535, 65536}))))
		} else {
			v.Set(reflect.ValueOf(intstr.FromString(choose(m, []string{"", "http", "50%", "Bad_Name", "no-such-port-name"}))))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(site{v.Elem(), s.owner, s.field}, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Type == reflect.TypeFor[metav1.TypeMeta]() || handled[f.Name] && v.Type() == reflect.TypeFor[metav1.ObjectMeta]() {
				continue
			}
			// Unions are set to one thing most of the time, and small structs wholly.
			if m.IntN(max(2, min(v.NumField(), 8))) == 0 || v.NumField() <= 3 && m.IntN(4) > 0 {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if depth < 5 {
					m.fill(site{v.Field(i), v.Type(), name}, depth+1)
				}
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(m.word(s)))
			return
		}
		n := 1 + m.IntN(2)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			m.fill(site{v.Index(i), s.owner, s.field}, depth+1)
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		key := choose(m, keys)
		if v.Type() == reflect.TypeFor[corev1.ResourceList]() {
			key = choose(m, resources)
		}
		value := reflect.New(v.Type().Elem()).Elem()
		m.fill(site{value, s.owner, s.field}, depth+1)
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64, reflect.Int:
		n := choose(m, []int64{-1, 0, 1, 2, 3, 10, 100, 255, 256, 1000, 65535, 65536, 100_000, 100_001, 1<<31 - 1})
		if m.IntN(4) == 0 {
			n = v.Int() + choose(m, []int64{-1, 1})
		}
		v.SetInt(int64(int32(n)))
	case reflect.String:
		v.SetString(m.word(s))
	}
}

func choose[T any](m *mutator, of []T) T { return of[m.IntN(len(of))] }

var (
	quantities = []string{"0", "1", "-1", "100m", "1500m", "0.0005", "1Gi", "10Mi", "123456789Gi", "1e3", "2"}
	resources  = []string{
		"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi", "example.com/device", "nvidia.com/gpu",
		"storage", "pods", "kubernetes.io/thing", "Bad_Name", "requests.cpu", "a", "",
	}
	keys = []string{
		"a", "app", "key", "Bad Key", "example.com/key", "example.com/bad/key", "-a", "", strings.Repeat("k", 64),
		"job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid",
		"kubernetes.io/hostname", ".dockerconfigjson", "tls.crt", "username", "..", ".",
		"container.apparmor.security.beta.kubernetes.io/c", "scheduler.alpha.kubernetes.io/critical-pod",
	}
	oddities = []string{
		"", "a", "A", "a.b", "-a", "a_b", "a/b", "/a", "/a/../b", "../a", "..", "a b", " ", "a:b", "a=b", "ä", "0", "1-3,5", "3,1",
		"5-2", "busybox", "busybox ", "Always", "Never", "None", "default", "example.com/a", "example.com/a/b", "http://a",
		"192.0.2.1", "::1", "192.0.2.01", "256.0.0.1", "$(VAR)", "metadata.name", "metadata.labels['a']", "status.podIP",
		"limits.cpu", "@hourly", "* * * * *", "TZ=UTC 0 0 * * *", "Europe/Berlin", "Local", "v1", "v1:metadata.name",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", strings.Repeat("a", 254),
		strings.Repeat("a", 300), strings.Repeat("b", 5000),
	}
)

// word is a string for a field: of its enumeration, one that such a field has elsewhere, or any.
func (m *mutator) word(s site) string {
	if values := m.enumeration(s); len(values) > 0 && m.IntN(4) > 0 {
		if word, ok := values[m.IntN(len(values))].(string); ok {
			return word
		}
	}
	if words := m.words[s.field]; len(words) > 0 && m.IntN(3) > 0 {
		return choose(m, words)
	}
	return choose(m, oddities)
}

func (m *mutator) enumeration(s site) []any {
	if s.owner == nil {
		return nil
	}
	named, ok := reflect.Zero(s.owner).Interface().(interface{ OpenAPIModelName() string })
	if !ok {
		return nil
	}
	property := m.models[named.OpenAPIModelName()].Schema.Properties[s.field]
	if property.Items != nil && property.Items.Schema != nil {
		return property.Items.Schema.Enum
	}
	return property.Enum
}
