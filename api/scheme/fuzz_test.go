package scheme

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/jobd/jobd/api/kind"
)

// any kind, chosen by a fuzzed number.
func chosen(n uint8) *kind.Kind { return Kinds()[int(n)%len(Kinds())] }

var manifests = []string{
	`{}`,
	`{"metadata":{"name":"a","labels":{"a":"b"}},"data":{"a":"b"},"stringData":{"a":"b"},"value":7}`,
	`{"metadata":{"name":"a"},"spec":{"suspend":true,"schedule":"* * * * *","template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"busybox"}]}}}}`,
	`{"metadata":{"name":"a"},"spec":{"schedule":"@hourly","jobTemplate":{"spec":{"completionMode":"Indexed","completions":2,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"busybox"}]}}}}}}`,
	`{"metadata":{"name":"a"},"spec":{"selector":{"a":"b"},"ports":[{"port":80,"targetPort":"http"}],"clusterIP":"None","holderIdentity":"me"}}`,
	`{"metadata":{"name":"a"},"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.1"]}],"ports":[{"port":80}]}`,
	`{"metadata":{"name":"a"},"involvedObject":{"namespace":"default"},"reason":"r","message":"m"}`,
}

// FuzzManifest takes a body of a request through all that is done with it, for every kind.
func FuzzManifest(f *testing.F) {
	for n := range uint8(len(Kinds())) {
		for _, m := range manifests {
			f.Add(n, []byte(m))
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		k := chosen(n)
		gvk := k.GroupVersion.WithKind(k.Name)
		obj, _, err := Codecs.UniversalDeserializer().Decode(data, &gvk, nil)
		if err != nil {
			return
		}
		if _, ok := obj.(metav1.Object); !ok || obj.GetObjectKind().GroupVersionKind().Kind != "" && obj.GetObjectKind().GroupVersionKind() != gvk {
			return // it says that it is another kind
		}
		into := k.New()
		if reflect.TypeOf(obj) != reflect.TypeOf(into) {
			return
		}
		if k.Default != nil {
			k.Default(obj)
		}
		old := obj.DeepCopyObject()
		rules := k.Strategy
		rules.PrepareForCreate(t.Context(), obj)
		errs := rules.Validate(t.Context(), obj)
		_ = rules.WarningsOnCreate(t.Context(), obj)
		_ = rules.ValidateUpdate(t.Context(), obj, old)
		_ = rules.ValidateUpdate(t.Context(), old, obj)
		rules.PrepareForUpdate(t.Context(), old, obj)
		_ = rules.WarningsOnUpdate(t.Context(), old, obj)
		for _, part := range k.Subresources {
			part.PrepareForUpdate(t.Context(), old, obj)
			_ = part.ValidateUpdate(t.Context(), old, obj)
		}
		if k.Cells != nil {
			_ = k.Cells(obj, time.Unix(0, 0))
		}
		for _, get := range k.Fields {
			_ = get(obj)
		}
		if len(errs) > 0 {
			return
		}
		// What is accepted is stored, and comes back as it was.
		obj.GetObjectKind().SetGroupVersionKind(into.GetObjectKind().GroupVersionKind())
		stored, err := Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(stored, into); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(obj, into) {
			t.Errorf("stored, it differs:\n%s", cmp.Diff(obj, into))
		}
	})
}

// FuzzStored reads bytes that nobody wrote.
func FuzzStored(f *testing.F) {
	for n := range uint8(len(Kinds())) {
		gvk := chosen(n).GroupVersion.WithKind(chosen(n).Name)
		for _, m := range manifests {
			if obj, _, err := Codecs.UniversalDeserializer().Decode([]byte(m), &gvk, nil); err == nil {
				if data, err := Encode(obj); err == nil {
					f.Add(n, data)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		k := chosen(n)
		obj := k.New()
		if Decode(data, obj) != nil {
			return
		}
		once, err := Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		again := k.New()
		if err := Decode(once, again); err != nil {
			t.Fatal(err)
		}
		if twice, err := Encode(again); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%x is written back as %x: %v", once, twice, err)
		}
	})
}

// FuzzProtobufBody decodes a body as a client of protobuf sends it.
func FuzzProtobufBody(f *testing.F) {
	s := protobuf.NewSerializer(Scheme, Scheme)
	for n := range uint8(len(Kinds())) {
		gvk := chosen(n).GroupVersion.WithKind(chosen(n).Name)
		for _, m := range manifests {
			if obj, _, err := Codecs.UniversalDeserializer().Decode([]byte(m), &gvk, nil); err == nil {
				if data, err := runtime.Encode(Codecs.EncoderForVersion(s, gvk.GroupVersion()), obj); err == nil {
					f.Add(n, data)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		k := chosen(n)
		gvk := k.GroupVersion.WithKind(k.Name)
		obj, _, err := Codecs.DecoderToVersion(s, k.GroupVersion).Decode(data, &gvk, nil)
		if err == nil && obj == nil {
			t.Error("neither an object nor an error")
		}
	})
}

// FuzzSelectors parses selectors of labels and fields and selects by them.
func FuzzSelectors(f *testing.F) {
	for _, s := range []string{
		"a=b", "a in (b,c),!d", "a notin (b)", "a>1", "metadata.name=a", "status.phase!=Running,spec.nodeName=",
		"reportingComponent=x", "a==b", "a=b\\,c", ",", "in",
	} {
		for n := range uint8(len(Kinds())) {
			f.Add(n, s)
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, text string) {
		k := chosen(n)
		if s, err := labels.Parse(text); err == nil {
			_ = s.Matches(labels.Set{"a": "b", "d": "1"})
			if again, err := labels.Parse(s.String()); err != nil || again.String() != s.String() {
				t.Errorf("%q is written as %q, which is read as %v: %v", text, s, again, err)
			}
		}
		s, err := fields.ParseSelector(text)
		if err != nil {
			return
		}
		versions := []schema.GroupVersion{k.GroupVersion}
		for _, a := range k.AlsoIn {
			versions = append(versions, a.GroupVersion)
		}
		for _, gv := range versions {
			converted, err := s.Transform(func(label, value string) (string, string, error) {
				return Scheme.ConvertFieldLabel(gv.WithKind(k.Name), label, value)
			})
			if err != nil {
				continue
			}
			set := fields.Set{"metadata.name": "a", "metadata.namespace": "b"}
			for name, get := range k.Fields {
				set[name] = get(k.New())
			}
			for _, r := range converted.Requirements() {
				if _, ok := set[r.Field]; !ok {
					t.Errorf("%q is accepted, but %s has no field %q", text, k.Name, r.Field)
				}
			}
			_ = converted.Matches(set)
		}
	})
}
