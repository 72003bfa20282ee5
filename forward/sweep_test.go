package forward

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

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

// What was made there goes if its Job is gone here, the Job there as what came with it, and whatever somebody else has stays.
func TestSweep(t *testing.T) {
	other := func(o metav1.Object) { o.GetLabels()[clusters.MachineLabel] = "machine-2" }
	for name, c := range map[string]struct {
		local  *batchv1.Job
		change func(metav1.Object)
		jobs   bool // that there goes
		copies bool
	}{
		"its Job is here":                     {here(held), nil, false, false},
		"its Job was made":                    {here(made), nil, false, false},
		"its Job is gone":                     {nil, nil, true, true},
		"another Job has the name":            {here(held, uid("other")), nil, true, true},
		"another machine has made it":         {nil, other, false, false},
		"and here is another Job of the name": {here(held, uid("other")), other, false, false},
		"nobody knows which machine":          {nil, func(o metav1.Object) { delete(o.GetLabels(), clusters.MachineLabel) }, false, false},
		"somebody else's":                     {nil, func(o metav1.Object) { o.SetLabels(nil) }, false, false},
		"its annotation was removed":          {nil, func(o metav1.Object) { o.SetAnnotations(nil) }, false, false},
		"it has an owner": {nil, func(o metav1.Object) { o.SetOwnerReferences([]metav1.OwnerReference{{Name: "j"}}) },
			true, false},
	} {
		var local []runtime.Object
		if c.local != nil {
			local = append(local, c.local)
		}
		f := cluster(local...)
		r, m, s := there(here()), &corev1.ConfigMap{ObjectMeta: copyMeta("m", "here")}, &corev1.Secret{ObjectMeta: copyMeta("s", "here")}
		for _, o := range []metav1.Object{r, m, s} {
			if c.change != nil {
				c.change(o)
			}
		}
		f.remote = fake.NewClientset(r, m, s)
		swept, err := f.sweep(t.Context(), r, f.remote.BatchV1().Jobs("default"))
		if err != nil || swept != c.jobs {
			t.Errorf("%s: the Job goes: %v, %v", name, swept, err)
		}
		if _, err = f.remote.BatchV1().Jobs("default").Get(t.Context(), "j", metav1.GetOptions{}); apierrors.IsNotFound(err) != c.jobs {
			t.Errorf("%s: the Job: %v", name, err)
		}
		for kind, of := range map[string]string{configMap: "m", secret: "s"} {
			if err := f.sweepCopies(t.Context(), kind, "default"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := f.copiesOf(kind, "default").get(t.Context(), of); apierrors.IsNotFound(err) != c.copies {
				t.Errorf("%s: the %s: %v", name, kind, err)
			}
		}
	}
}
