package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestNamesOfImages(t *testing.T) {
	most, more := strings.Repeat("a", 1024), strings.Repeat("a", 1025)
	for _, c := range []struct{ image, old, refused string }{
		{image: "busybox"},
		{image: "registry.example.com:5000/a/b:1@sha256:" + strings.Repeat("0", 64)},
		{image: most},
		{image: more, refused: "Too long: may not be more than 1024 bytes"},
		{image: more, old: more},
		{image: more, old: most, refused: "Too long"},
		{image: "a\x00b", refused: "must consist of printable characters"},
		{image: "a\x1b[0m", refused: "must consist of printable characters"},
		{image: "a\u202eb", refused: "must consist of printable characters"},
		{image: "a\nb", old: "a\nb"},
	} {
		for name, spec := range map[string]func(image string) *corev1.PodTemplateSpec{
			"containers[0].image": func(image string) *corev1.PodTemplateSpec {
				return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
			},
			"initContainers[0].image": func(image string) *corev1.PodTemplateSpec {
				return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Image: image}}}}
			},
			"ephemeralContainers[0].image": func(image string) *corev1.PodTemplateSpec {
				return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{
					{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: image}}}}}
			},
			"volumes[0].image.reference": func(image string) *corev1.PodTemplateSpec {
				return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
					{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image}}}}}}
			},
		} {
			check(t, name, spec(c.image), spec(c.old), c.old != "", c.refused)
		}
	}
}

func check(t *testing.T, name string, now, old *corev1.PodTemplateSpec, update bool, refused string) {
	t.Helper()
	path := field.NewPath("spec", "template")
	errs := CheckTemplateSize(now, path)
	if update {
		errs = CheckTemplateGrowth(now, old, path)
	}
	got := ""
	if len(errs) > 0 {
		got = errs.ToAggregate().Error()
	}
	if refused == "" && got != "" || refused != "" && (!strings.Contains(got, refused) || !strings.HasPrefix(got, "spec.template.spec."+name+": ")) {
		t.Errorf("%s: got %q, want %q", name, got, refused)
	}
}
