package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSizesOfPods(t *testing.T) {
	of := func(size int) *corev1.Pod {
		p := &corev1.Pod{}
		p.Spec.Containers = []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "X"}}}}
		p.Spec.Containers[0].Env[0].Value = strings.Repeat("x", size-p.Spec.Size()-9) // each length takes some bytes more
		return p
	}
	path := field.NewPath("spec", "template")
	few, most, more := of(1000), of(maxPodBytes), of(maxPodBytes+100)
	for rule, test := range map[string]struct {
		errs    field.ErrorList
		refused string
	}{
		"a pod of the most":                     {errs: checkPodSize(most)},
		"a pod of more":                         {errs: checkPodSize(more), refused: "spec: Too long: may not be more than 1048576 bytes"},
		"a pod that grows":                      {errs: checkPodGrowth(more, few), refused: "spec: Too long"},
		"one from before that stays":            {errs: checkPodGrowth(more, more)},
		"one from before that shrinks a little": {errs: checkPodGrowth(more, of(maxPodBytes+200))},
		"one from before that grows":            {errs: checkPodGrowth(of(maxPodBytes+200), more), refused: "spec: Too long"},
		"a template of the most":                {errs: CheckTemplateSize(&corev1.PodTemplateSpec{Spec: few.Spec}, path)},
		"a template of more": {
			errs: CheckTemplateSize(&corev1.PodTemplateSpec{Spec: more.Spec}, path), refused: "spec.template: Too long",
		},
		"annotations count in a template as well": {
			errs:    CheckTemplateSize(annotated(&most.Spec), path),
			refused: "spec.template: Too long",
		},
		"a template that grows": {
			errs:    CheckTemplateGrowth(annotated(&more.Spec), &corev1.PodTemplateSpec{Spec: more.Spec}, path),
			refused: "spec.template: Too long",
		},
	} {
		got := ""
		if len(test.errs) > 0 {
			got = test.errs.ToAggregate().Error()
		}
		if (got != "") != (test.refused != "") || !strings.Contains(got, test.refused) {
			t.Errorf("%s: got %q, want %q", rule, got, test.refused)
		}
	}
}

func annotated(spec *corev1.PodSpec) *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{Spec: *spec}
	template.Annotations = map[string]string{"a": strings.Repeat("x", 100_000)}
	return template
}
