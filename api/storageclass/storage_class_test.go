package storageclass

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheDefaultClass(t *testing.T) {
	class := func(name, marked string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(1e9, 0), Annotations: map[string]string{defaultAnnotation: marked},
		}}
	}
	newer := class("newer", "true")
	newer.CreationTimestamp = metav1.Unix(2e9, 0)
	for name, c := range map[string]struct {
		classes []*storagev1.StorageClass
		want    string
	}{
		"there is none":               {[]*storagev1.StorageClass{class("a", "false")}, ""},
		"it is marked":                {[]*storagev1.StorageClass{class("a", "false"), class("b", "true")}, "b"},
		"of several it is the newest": {[]*storagev1.StorageClass{newer, class("b", "true")}, "newer"},
		"of those the first by name":  {[]*storagev1.StorageClass{class("b", "true"), class("a", "true")}, "a"},
		"the first start makes one":   {[]*storagev1.StorageClass{Local()}, "local"},
	} {
		got := ""
		if chosen := Default(c.classes); chosen != nil {
			got = chosen.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestParameters(t *testing.T) {
	for name, c := range map[string]struct {
		parameters map[string]string
		want       Parameters
		refused    string
	}{
		"none":                         {nil, Parameters{}, ""},
		"a loop file of another type":  {map[string]string{"type": "loop", "fsType": "xfs"}, Parameters{Loop: true, FSType: "xfs"}, ""},
		"a size that must be enforced": {map[string]string{"type": "directory", "enforce": "true"}, Parameters{Enforce: true}, ""},
		"one that is not known":        {map[string]string{"tpye": "loop"}, Parameters{}, "parameters[tpye]"},
		"an unknown type":              {map[string]string{"type": "tape"}, Parameters{}, "parameters[type]"},
		"a directory's file system":    {map[string]string{"fsType": "xfs"}, Parameters{FSType: "xfs"}, "parameters[fsType]"},
		"neither true nor false":       {map[string]string{"enforce": "maybe"}, Parameters{}, "parameters[enforce]"},
	} {
		class := Local()
		class.Parameters = c.parameters
		got, errs := ParametersOf(class)
		refused := ""
		if len(errs) > 0 {
			refused = errs[0].Field
		}
		if got != c.want || refused != c.refused || len(validate(class)) != len(errs) {
			t.Errorf("%s: %+v, refused is %q: %v", name, got, refused, validate(class))
		}
	}
}
