package annotations

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/api/notices"
)

func TestReceiversThatThereAreNot(t *testing.T) {
	known := Receivers(func(receiver, namespace string) bool { return receiver == "ops" && namespace == "team" })
	naming := func(names string) map[string]string { return map[string]string{notices.ReceiversAnnotation: names} }
	job := func(namespace, names string) *batchv1.Job {
		j := &batchv1.Job{}
		j.Namespace, j.Annotations = namespace, naming(names)
		return j
	}
	cronJob := &batchv1.CronJob{}
	cronJob.Namespace, cronJob.Spec.JobTemplate.Annotations = "team", naming("ops,pager")
	namespace := &corev1.Namespace{}
	namespace.Name, namespace.Annotations = "team", naming("ops")
	pod := &corev1.Pod{}
	pod.Annotations = naming("pager") // which Warnings says has no effect there
	const rest = ": the settings of jobd have no such receiver for this namespace (jobctl notify lists them)"
	for name, tc := range map[string]struct {
		obj, old runtime.Object
		want     []string
	}{
		"one that there is":          {obj: job("team", "ops")},
		"not for the namespace":      {obj: job("other", "ops"), want: []string{`metadata.annotations[jobd.dev/notify]: nobody is told by "ops"` + rest}},
		"named before":               {obj: job("team", "pager"), old: job("team", "pager")},
		"of the template":            {obj: cronJob, want: []string{`spec.jobTemplate.metadata.annotations[jobd.dev/notify]: nobody is told by "pager"` + rest}},
		"of a namespace":             {obj: namespace},
		"of a pod, which tells none": {obj: pod},
	} {
		if got := known.Warnings(tc.obj, tc.old); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := Receivers(nil).Warnings(job("team", "pager"), nil); got != nil {
		t.Errorf("without a daemon: %q", got)
	}
}
