package hostimage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func podOf(containers ...corev1.Container) *corev1.PodSpec {
	return &corev1.PodSpec{Containers: containers}
}

// What Fill has filled in, Check takes; and a template takes what Fill is going to fill in.
func TestFilledIsChecked(t *testing.T) {
	for name, spec := range map[string]*corev1.PodSpec{
		"one":     podOf(corev1.Container{Name: "c", Image: Name}),
		"an init": {InitContainers: []corev1.Container{{Name: "i", Image: Name}}, Containers: []corev1.Container{{Name: "c", Image: Name}}},
		"its own /tmp": {
			Volumes: []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "c", Image: Name, VolumeMounts: []corev1.VolumeMount{{Name: "t", MountPath: "/tmp/"}, {Name: "x", MountPath: "/jobd/x"}},
			}},
		},
	} {
		at := field.NewPath("spec")
		if errs := Check(spec, at, false, false); len(errs) > 0 {
			t.Errorf("%s, a template: %v", name, errs)
		}
		if errs := Check(spec, at, true, false); len(errs) == 0 {
			t.Errorf("%s: a pod that was not filled in is taken", name)
		}
		Fill(spec)
		if errs := Check(spec, at, true, false); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
		volumes := len(spec.Volumes)
		Fill(spec)
		if len(spec.Volumes) != volumes || volumes != 1 || !spec.HostNetwork || !*spec.HostUsers || *spec.AutomountServiceAccountToken {
			t.Errorf("%s: it is %+v", name, spec)
		}
	}
}

func TestRootMayHaveMore(t *testing.T) {
	spec := podOf(corev1.Container{Name: "c", Image: Name, SecurityContext: &corev1.SecurityContext{
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"DAC_READ_SEARCH"}}, AllowPrivilegeEscalation: ptr.To(true),
	}})
	Fill(spec)
	if errs := Check(spec, field.NewPath("spec"), true, true); len(errs) > 0 {
		t.Errorf("root: %v", errs)
	}
	if errs := Check(spec, field.NewPath("spec"), true, false); len(errs) != 2 {
		t.Errorf("a user: %v", errs)
	}
}

func TestNames(t *testing.T) {
	for image, wrong := range map[string]bool{
		Name: false, Name + ":latest": true, Name + "@sha256:0": true, "jobd.dev/hosts": false, "docker.io/jobd.dev/host": false, Name + "/x": false,
	} {
		spec := podOf(corev1.Container{Name: "c", Image: image})
		if errs := CheckNames(spec, field.NewPath("spec")); (len(errs) > 0) != wrong {
			t.Errorf("%s: %v", image, errs)
		}
		if Uses(spec) != (image == Name) {
			t.Errorf("%s is used: %t", image, Uses(spec))
		}
	}
	spec := podOf(corev1.Container{Name: "c", Image: "x"})
	spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: Name}}}
	errs := Check(spec, field.NewPath("spec"), true, false)
	if !Uses(spec) || !strings.Contains(errs.ToAggregate().Error(), "ephemeralContainers: Forbidden") {
		t.Errorf("one for debugging: %v", errs)
	}
}
