package annotations

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name, manifest, old string
		obj                 runtime.Object
		want                []string
	}{
		{"those that work", `{metadata: {annotations: {jobd.dev/backoff-base: 1s, jobd.dev/oom-memory-factor: "2", example.com/x: y}},
			spec: {template: {metadata: {annotations: {jobd.dev/keep-files: 1h, jobd.dev/simulate-duration: 1s}}}}}`, "", &batchv1.Job{}, nil},
		{"a misspelt one", `{metadata: {annotations: {jobd.dev/oom-memory-facter: "2"}}}`, "", &batchv1.Job{},
			[]string{"metadata.annotations[jobd.dev/oom-memory-facter]: has no effect: jobd has no such annotation; is jobd.dev/oom-memory-factor meant?"}},
		{"one that is like no other", `{metadata: {annotations: {jobd.dev/colour: blue}}}`, "", &batchv1.Job{},
			[]string{"metadata.annotations[jobd.dev/colour]: has no effect: jobd has no such annotation"}},
		{"a long one is not searched for", `{metadata: {annotations: {jobd.dev/a-name-that-nobody-has-thought-of: x}}}`, "", &corev1.Pod{},
			[]string{"metadata.annotations[jobd.dev/a-name-that-nobody-has-thought-of]: has no effect: jobd has no such annotation"}},
		{"one of the template at the Job", `{metadata: {annotations: {jobd.dev/keep-files: 1h}}}`, "", &batchv1.Job{},
			[]string{"metadata.annotations[jobd.dev/keep-files]: has no effect: it belongs in spec.template.metadata.annotations"}},
		{"one of the Job at the template", `{spec: {template: {metadata: {annotations: {jobd.dev/backoff-base: 1s}}}}}`, "", &batchv1.Job{},
			[]string{"spec.template.metadata.annotations[jobd.dev/backoff-base]: has no effect: it belongs in metadata.annotations"}},
		{"one of the Job at the CronJob", `{metadata: {annotations: {jobd.dev/backoff-base: 1s}}}`, "", &batchv1.CronJob{},
			[]string{"metadata.annotations[jobd.dev/backoff-base]: has no effect: it belongs in spec.jobTemplate.metadata.annotations"}},
		{"one of a Job at a pod", `{metadata: {annotations: {jobd.dev/backoff-base: 1s}}}`, "", &corev1.Pod{},
			[]string{"metadata.annotations[jobd.dev/backoff-base]: has no effect: objects of this kind do not have it"}},
		{"any at a kind that has none", `{metadata: {annotations: {jobd.dev/role: read}}}`, "", &corev1.ConfigMap{},
			[]string{"metadata.annotations[jobd.dev/role]: has no effect: objects of this kind do not have it"}},
		{"those of a namespace and of an account", `{metadata: {annotations: {jobd.dev/role: read}}}`, "", &corev1.ServiceAccount{}, nil},
		{"one that was there before", `{metadata: {annotations: {jobd.dev/x: a, jobd.dev/y: b}}}`,
			`{metadata: {annotations: {jobd.dev/x: a}}}`, &batchv1.CronJob{},
			[]string{"metadata.annotations[jobd.dev/y]: has no effect: jobd has no such annotation"}},
		{"those of a JobSet", `{metadata: {annotations: {jobd.dev/notify: ops}}, spec: {replicatedJobs: [{name: a, template: {
			metadata: {annotations: {jobd.dev/backoff-base: 1s}}, spec: {template: {metadata: {annotations: {jobd.dev/keep-files: 1h}}}}}}]}}`, "",
			&jobsetv1.JobSet{}, nil},
		{"those that a JobSet does not have", `{metadata: {annotations: {jobd.dev/backoff-base: 1s, jobd.dev/jitter: 1m}}, spec: {replicatedJobs: [{name: a,
			template: {metadata: {annotations: {jobd.dev/keep-files: 1h, jobd.dev/expect-success-every: 1h}}}}]}}`, "", &jobsetv1.JobSet{}, []string{
			"metadata.annotations[jobd.dev/backoff-base]: has no effect: it belongs in spec.replicatedJobs[0].template.metadata.annotations",
			"metadata.annotations[jobd.dev/jitter]: has no effect: objects of this kind do not have it",
			"spec.replicatedJobs[0].template.metadata.annotations[jobd.dev/expect-success-every]: has no effect: objects of this kind do not have it",
			"spec.replicatedJobs[0].template.metadata.annotations[jobd.dev/keep-files]: has no effect: " +
				"it belongs in spec.replicatedJobs[0].template.spec.template.metadata.annotations",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := yaml.UnmarshalStrict([]byte(c.manifest), c.obj); err != nil {
				t.Fatal(err)
			}
			var old runtime.Object
			if c.old != "" {
				old = c.obj.DeepCopyObject()
				old.(metav1.Object).SetAnnotations(nil)
				if err := yaml.UnmarshalStrict([]byte(c.old), old); err != nil {
					t.Fatal(err)
				}
			}
			if got := Warnings(c.obj, old); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}
