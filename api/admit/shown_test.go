package admit

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/jobd/jobd/api/clusters"
)

// Nothing counts pods that show those of a cluster, so not everybody makes them.
func TestPodsOfAClusterAreForItsForwarder(t *testing.T) {
	access := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "forwarder" && a.GetVerb() == "create" && a.GetResource() == "pods" && a.GetSubresource() == "log" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	shown, other := corev1.PodSpec{NodeName: "prod", SchedulerName: clusters.Scheduler("prod")}, corev1.PodSpec{NodeName: "prod"}
	job := &batchv1.Job{}
	job.Spec.Template.Spec = shown
	for what, c := range map[string]struct {
		obj, old runtime.Object
		who      string
		refused  bool
	}{
		"a submitter":               {&corev1.Pod{Spec: shown}, nil, "s", true},
		"the forwarder":             {&corev1.Pod{Spec: shown}, nil, "forwarder", false},
		"a label of such a pod":     {&corev1.Pod{Spec: shown}, &corev1.Pod{Spec: shown}, "s", false},
		"a pod of another node":     {&corev1.Pod{Spec: other}, nil, "s", false},
		"a template":                {job, nil, "forwarder", true},
		"a Job that gets it":        {job, &batchv1.Job{}, "forwarder", true},
		"a Job that had it already": {job, job, "s", false},
	} {
		op := admission.Create
		if c.old != nil {
			op = admission.Update
		}
		a := admission.NewAttributesRecord(c.obj, c.old, schema.GroupVersionKind{}, "default", "x",
			schema.GroupVersionResource{Resource: "things"}, "", op, nil, false, &user.DefaultInfo{Name: c.who})
		err := Shown{access}.Validate(t.Context(), a, nil)
		if got := apierrors.IsForbidden(err); got != c.refused || err != nil && !got {
			t.Errorf("%s: %v", what, err)
		}
	}
}
