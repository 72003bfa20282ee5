package sandbox

import (
	"strconv"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/oci"
)

// To compare each mount with each other one would take minutes.
func TestManyMountsAreLabelled(t *testing.T) {
	const many = 200_000
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}}
	c, mounts := &p.Spec.Containers[0], map[string][]specs.Mount{}
	for i := range many {
		name := strconv.Itoa(i)
		source := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/m/" + name})
		mounts[c.Name] = append(mounts[c.Name], specs.Mount{Destination: "/m/" + name, Source: "/nothing"})
	}
	spec := &specs.Spec{Linux: &specs.Linux{MountLabel: "system_u:object_r:container_file_t:s0"}}
	_ = relabel(spec, oci.Files{}, nil, worker.SpecInput{Pod: p, Container: c, Sandbox: &worker.Sandbox{Mounts: mounts}})
}
