package creation

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/runas"
)

func TestRunAs(t *testing.T) {
	of := func(id string) *there {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "alice"}}
		if id != "" {
			ns.Annotations = map[string]string{runas.Annotation: id}
		}
		return &there{ns: ns}
	}
	plain := corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}
	root := *plain.DeepCopy()
	root.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}
	pod := func(spec corev1.PodSpec) runtime.Object { return &corev1.Pod{Spec: *spec.DeepCopy()} }
	job := func(spec corev1.PodSpec) runtime.Object {
		j := &batchv1.Job{}
		j.Spec.Template.Spec = spec
		return j
	}
	cronJob := func(spec corev1.PodSpec) runtime.Object {
		c := &batchv1.CronJob{}
		c.Spec.JobTemplate.Spec.Template.Spec = spec
		return c
	}
	set := func(spec corev1.PodSpec) runtime.Object {
		js := &jobsetv1.JobSet{}
		js.Spec.ReplicatedJobs = make([]jobsetv1.ReplicatedJob, 2)
		js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec, js.Spec.ReplicatedJobs[1].Template.Spec.Template.Spec = plain, spec
		return js
	}
	for rule, c := range map[string]struct {
		there  *there
		object runtime.Object
		want   string // what is wrong
	}{
		"a pod that says nothing":      {of("1000:100"), pod(plain), ""},
		"a pod of root":                {of("1000:100"), pod(root), "spec.containers[0].securityContext.runAsUser: Forbidden: must be 1000"},
		"a template that says nothing": {of("1000:100"), job(plain), ""},
		"a template of root":           {of("1000:100"), job(root), "spec.template.spec.containers[0].securityContext.runAsUser: Forbidden: must be 1000"},
		"a CronJob of root":            {of("1000:100"), cronJob(root), "spec.jobTemplate.spec.template.spec.containers[0].securityContext.runAsUser"},
		"a JobSet that says nothing":   {of("1000:100"), set(plain), ""},
		"the second group of a JobSet": {of("1000:100"), set(root),
			"spec.replicatedJobs[1].template.spec.template.spec.containers[0].securityContext.runAsUser: Forbidden: must be 1000"},
		"an annotation that is none":     {of("alice"), pod(plain), "jobd.dev/run-as: "},
		"for a template too":             {of("alice"), job(plain), "jobd.dev/run-as: "},
		"a namespace without annotation": {of(""), pod(root), ""},
		"what has no pods":               {of("alice"), &corev1.ConfigMap{}, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			r := &Request{From: c.there, Called: "x", Attributes: admission.NewAttributesRecord(c.object, nil, corev1.SchemeGroupVersion.WithKind("Pod"),
				"alice", "x", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)}
			refusal, err := fillRunAs(r)
			if refusal == nil && err == nil {
				refusal, err = checkRunAs(t.Context(), r)
			}
			if err != nil || (refusal == nil) != (c.want == "") || refusal != nil && !strings.Contains(refusal.Error(), c.want) {
				t.Errorf("%v, %v, want %q", refusal, err, c.want)
			}
		})
	}
}
