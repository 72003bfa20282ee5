package forward

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/jobd/jobd/api/clusters"
)

// What a proxy answers while jobd does not run is no reason to remove all that it has in the cluster.
func TestOnlyJobdSaysThatAJobIsGone(t *testing.T) {
	f := cluster()
	if gone, err := f.jobIsGone(t.Context(), "default", "j", "here"); !gone || err != nil {
		t.Errorf("it is gone: %v, %v", gone, err)
	}
	f.local.(*fake.Clientset).PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(404, "GET", batchv1.Resource("jobs"), "j", "404 page not found", 0, true)
	})
	if gone, err := f.jobIsGone(t.Context(), "default", "j", "here"); gone || err == nil {
		t.Errorf("another server answers: %v, %v", gone, err)
	}
}

// Copies go that no Job will own: a Job that the cluster has refused for long may still be made with those that came with it.
func TestStrayCopies(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	f := cluster()
	f.localJobs = stores{metav1.NamespaceAll: store}
	old := metav1.NewTime(now.Add(-2 * strayAge))
	for name, c := range map[string]struct {
		job   *batchv1.Job
		owner []metav1.OwnerReference
		since metav1.Time
		want  bool
	}{
		"its Job is gone":                   {nil, nil, old, true},
		"its Job is just being made":        {nil, nil, metav1.NewTime(now), false},
		"its Job waits":                     {here(held), nil, old, false},
		"its Job was made, without it":      {here(made), nil, old, true},
		"its Job was made":                  {here(made), []metav1.OwnerReference{{Name: "j"}}, old, false},
		"another Job of the name is waited": {here(held, uid("other")), nil, old, true},
	} {
		var all []any
		if c.job != nil {
			all = append(all, c.job)
		}
		if err := store.Replace(all, ""); err != nil {
			t.Fatal(err)
		}
		m := &metav1.ObjectMeta{Labels: map[string]string{clusters.OriginUIDLabel: "here"}, OwnerReferences: c.owner, CreationTimestamp: c.since}
		if got := f.isStray(m, f.waiting()); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
