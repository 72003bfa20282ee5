package volume

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestMakingVolumesGivesWay(t *testing.T) {
	v := newVolumes(t)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/v"})
	for n := range 1000 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
			Name: fmt.Sprint("other-", n), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	was, ways := giveWay, 0
	defer func() { giveWay = was }()
	giveWay = func() { ways++ }
	if _, err := setUp(v, p); err != nil {
		t.Fatal(err)
	}
	if ways < 1000 {
		t.Errorf("%d volumes were made, and others let pass %d times", len(p.Spec.Volumes), ways)
	}
}
