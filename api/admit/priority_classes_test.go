package admit

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/roles"
)

// A pod of a built-in class takes the room of all others.
func TestBuiltInPriorityClassesAreForAdministrators(t *testing.T) {
	submitter := &user.DefaultInfo{Name: "s", Groups: []string{user.AllAuthenticated}}
	admin := &user.DefaultInfo{Name: "a", Groups: []string{roles.AdminGroup}}
	critical, other := corev1.PodSpec{PriorityClassName: "system-node-critical"}, corev1.PodSpec{PriorityClassName: "high"}
	cronJob := func(spec corev1.PodSpec) runtime.Object {
		c := &batchv1.CronJob{}
		c.Spec.JobTemplate.Spec.Template.Spec = spec
		return c
	}
	job := &batchv1.Job{}
	job.Spec.Template.Spec.PriorityClassName = "system-cluster-critical"
	group := &schedulingv1beta1.PodGroup{Spec: schedulingv1beta1.PodGroupSpec{PriorityClassName: "system-node-critical"}}
	workload := &schedulingv1beta1.Workload{}
	workload.Spec.PodGroupTemplates = []schedulingv1beta1.PodGroupTemplate{{}, {PriorityClassName: "system-node-critical"}}
	jobSet := func(specs ...corev1.PodSpec) runtime.Object {
		js := &jobsetv1.JobSet{}
		for _, spec := range specs {
			js.Spec.ReplicatedJobs = append(js.Spec.ReplicatedJobs, jobsetv1.ReplicatedJob{})
			js.Spec.ReplicatedJobs[len(js.Spec.ReplicatedJobs)-1].Template.Spec.Template.Spec = spec
		}
		return js
	}
	for what, c := range map[string]struct {
		obj, old    runtime.Object
		namespace   string
		who         user.Info
		subresource string
		refused     bool
	}{
		"a pod":                      {obj: &corev1.Pod{Spec: critical}, who: submitter, refused: true},
		"a Job":                      {obj: job, who: submitter, refused: true},
		"a CronJob":                  {obj: cronJob(critical), who: submitter, refused: true},
		"a group":                    {obj: group, who: submitter, refused: true},
		"a group of a JobSet":        {obj: jobSet(other, critical), who: submitter, refused: true},
		"a JobSet that gets it":      {obj: jobSet(critical), old: jobSet(other), who: submitter, refused: true},
		"a JobSet that has it":       {obj: jobSet(other, critical), old: jobSet(other, critical), who: submitter},
		"a template of a group":      {obj: workload, who: submitter, refused: true},
		"a CronJob that gets it":     {obj: cronJob(critical), old: cronJob(other), who: submitter, refused: true},
		"a CronJob that has it":      {obj: cronJob(critical), old: cronJob(critical), who: submitter},
		"a JobSet of another class":  {obj: jobSet(other), who: submitter},
		"the status of a pod":        {obj: &corev1.Pod{Spec: critical}, who: submitter, subresource: "status"},
		"a pod of another class":     {obj: &corev1.Pod{Spec: other}, who: submitter},
		"a pod of an administrator":  {obj: &corev1.Pod{Spec: critical}, who: admin},
		"a pod of the system":        {obj: &corev1.Pod{Spec: critical}, who: submitter, namespace: "kube-system"},
		"something that has no pods": {obj: &corev1.ConfigMap{}, who: submitter},
	} {
		op := admission.Create
		if c.old != nil {
			op = admission.Update
		}
		if c.namespace == "" {
			c.namespace = "default"
		}
		a := admission.NewAttributesRecord(c.obj, c.old, schema.GroupVersionKind{}, c.namespace, "x",
			schema.GroupVersionResource{Resource: "things"}, c.subresource, op, nil, false, c.who)
		err := PriorityClasses{}.Validate(t.Context(), a, nil)
		if got := apierrors.IsForbidden(err); got != c.refused || err != nil && !got {
			t.Errorf("%s: %v", what, err)
		}
	}
}
