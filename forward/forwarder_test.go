package forward

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/clusters"
)

func TestNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		mapped map[string]string
		valid  bool
	}{
		"all":                {nil, true},
		"crosswise":          {map[string]string{"a": "b", "b": "a"}, true},
		"two into one":       {map[string]string{"a": "c", "b": "c"}, false},
		"into none":          {map[string]string{"a": ""}, false},
		"of none":            {map[string]string{"": "a"}, false},
		"what is not a name": {map[string]string{"a": "../b"}, false},
	} {
		if err := checkNamespaces(c.mapped); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of a Job that was never made there nothing goes on.
func TestWhatGoesOnInASilentCluster(t *testing.T) {
	j := &batchv1.Job{}
	j.UID = "u"
	if said := goesOn(j); said != "" {
		t.Errorf("of a Job that is only here: %q", said)
	}
	for there, want := range map[types.UID]string{"": "", "r": "; what was made there goes on"} {
		j.Annotations = map[string]string{clusters.RecordAnnotation: clusters.Record{Job: "u", UID: there, Namespace: "n"}.Annotation()}
		if said := goesOn(j); said != want {
			t.Errorf("made as %q: %q, want %q", there, said, want)
		}
	}
}
