package server

import (
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/jobd/jobd/api/kueue"
	"github.com/jobd/jobd/api/scheme"
)

// TestFieldTypes compares objects of all kinds with the schema, which the server does not do, and what server-side apply
// knows of their fields with what it knows of objects that have been compared.
func TestFieldTypes(t *testing.T) {
	ts := startServer(t)
	_, models := openAPI()
	known := &fieldTypes{}
	if err := ts.groups.learnTypes(known, models); err != nil {
		t.Fatal(err)
	}
	if len(known.empty) == 0 {
		t.Error("no kind is known")
	}
	for kind := range known.empty {
		for seed := range int64(20) {
			obj, err := scheme.Scheme.New(kind)
			if err != nil {
				t.Fatal(err)
			}
			funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, rawFuncs)
			fuzzer.FuzzerFor(funcs, rand.NewSource(seed), scheme.Codecs).NilChance(0.4).NumElements(0, 2).MaxDepth(9).Fill(obj)
			obj.GetObjectKind().SetGroupVersionKind(kind)
			compared, err := known.TypeConverter.ObjectToTyped(obj, typed.AllowDuplicates)
			if err != nil {
				t.Errorf("%s: %v", kind, err)
				break
			}
			trusted, err := known.ObjectToTyped(obj, typed.AllowDuplicates)
			if err != nil {
				t.Fatal(err)
			}
			want, err := compared.ToFieldSet()
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if got, err := trusted.ToFieldSet(); err != nil || !got.Equals(want) {
				t.Errorf("%s: %v, fields %s, want %s", kind, err, got, want)
			}
		}
	}
}

// rawFuncs fill what is JSON as it came.
func rawFuncs(serializer.CodecFactory) []any {
	return []any{func(r *kueue.Raw, c randfill.Continue) {
		*r = kueue.Raw([]string{`{}`, `{"a":[1,{"b":"c"}]}`, `null`}[c.Intn(3)])
	}}
}
