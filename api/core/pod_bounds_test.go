package core

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestContainersOfAPodAreBounded(t *testing.T) {
	for _, c := range []struct {
		init, main, ephemeral int
		ok                    bool
	}{{0, 256, 0, true}, {0, 257, 0, false}, {100, 157, 0, false}, {100, 100, 56, true}, {100, 100, 57, false}} {
		spec := &corev1.PodSpec{
			InitContainers: make([]corev1.Container, c.init), Containers: make([]corev1.Container, c.main),
			EphemeralContainers: make([]corev1.EphemeralContainer, c.ephemeral),
		}
		if errs := boundContainers(spec, field.NewPath("spec")); (len(errs) == 0) != c.ok {
			t.Errorf("%+v: %v", c, errs)
		}
	}
}

func TestMountsOfAPodAreBounded(t *testing.T) {
	pod := func(volumes int, source corev1.VolumeSource, mounts int, mount corev1.VolumeMount) *corev1.PodSpec {
		s := &corev1.PodSpec{Containers: make([]corev1.Container, 2), InitContainers: make([]corev1.Container, 1)}
		for i := range volumes {
			s.Volumes = append(s.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: source})
		}
		for i := range mounts {
			mount.Name = fmt.Sprint("v", i%max(1, volumes))
			list := &s.Containers[i%2].VolumeMounts
			if i%5 == 0 {
				list = &s.InitContainers[0].VolumeMounts
			}
			*list = append(*list, mount)
		}
		return s
	}
	files := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
	disk := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	memory := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
	sub, expr := corev1.VolumeMount{SubPath: "a"}, corev1.VolumeMount{SubPathExpr: "$(A)"}
	for name, c := range map[string]struct {
		spec *corev1.PodSpec
		ok   bool
	}{
		"nothing":                        {pod(0, files, 0, sub), true},
		"as many subPaths as may be":     {pod(1, disk, 256, sub), true},
		"one more":                       {pod(1, disk, 257, sub), false},
		"one more by variables":          {pod(1, disk, 257, expr), false},
		"a volume in memory beside them": {pod(1, memory, 256, sub), false},
		"volumes in memory":              {pod(257, memory, 0, sub), false},
		"paths of the host":              {pod(257, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}, 0, sub), false},
		"volumes of files":               {pod(1000, files, 0, sub), true},
		"directories":                    {pod(1000, disk, 0, sub), true},
		"whole volumes":                  {pod(1, disk, 1000, corev1.VolumeMount{}), true},
	} {
		if errs := boundMounts(c.spec, field.NewPath("spec")); (len(errs) == 0) != c.ok {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
