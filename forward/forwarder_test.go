package forward

import (
	"net/http"
	"net/http/httptest"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

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

// Whoever has a cluster reads by the logs that it gives nothing of what only the machine of the forwarder reaches.
func TestAClusterLeadsNowhereElse(t *testing.T) {
	asked := 0
	machine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer machine.Close()
	cluster := httptest.NewServer(http.RedirectHandler(machine.URL+"/credentials", http.StatusFound))
	defer cluster.Close()
	f, err := New(Options{Local: &rest.Config{Host: cluster.URL}, Remote: &rest.Config{Host: cluster.URL, BearerToken: "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	if log, err := f.remote.CoreV1().Pods("n").GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(t.Context()); err == nil {
		log.Close()
		t.Error("what it leads to is a log")
	}
	if _, err := f.remote.BatchV1().Jobs("n").Watch(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("what it leads to is watched")
	}
	if _, err := f.local.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("what jobd leads to is its list")
	}
	if asked > 0 {
		t.Errorf("the other server was asked %d times", asked)
	}
}
