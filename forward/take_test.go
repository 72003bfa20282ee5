package forward

import (
	"log/slog"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/jobd/jobd/api/clusters"
)

// Whoever may change a Job may write its record: that brings it into no namespace that its own is not mapped to.
func TestARecordChoosesNoNamespace(t *testing.T) {
	l := here(astray)
	f := &Forwarder{Options: Options{Namespaces: map[string]string{"default": "team-a"}}, local: fake.NewClientset(l)}
	if err := f.hold(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	got, err := f.local.BatchV1().Jobs(l.Namespace).Get(t.Context(), l.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r := clusters.RecordOf(got); r == nil || r.Namespace != "team-a" || r.Job != l.UID {
		t.Errorf("its record: %+v", r)
	}
}

// cluster is a Forwarder between two servers that there are only in the memory.
func cluster(local ...runtime.Object) *Forwarder {
	return &Forwarder{
		Options: Options{Cluster: "prod", Logger: slog.New(slog.DiscardHandler)}, origin: origin, now: func() time.Time { return now },
		local: fake.NewClientset(local...), remote: fake.NewClientset(),
	}
}

// A watch may be behind: what is known by then to have been made, or to be deleted, is not made again.
func TestAStaleJobIsNotMade(t *testing.T) {
	for name, is := range map[string]*batchv1.Job{
		"it was made": here(made, version("2")), "it is deleted": here(held, deleted, version("2")), "it is another one": here(held, uid("other")),
		"it is gone": nil,
	} {
		var local []runtime.Object
		if is != nil {
			local = append(local, is)
		}
		if err := cluster(local...).unchanged(t.Context(), here(held)); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := cluster(here(held)).unchanged(t.Context(), here(held)); err != nil {
		t.Error(err)
	}
}
