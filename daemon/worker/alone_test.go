package worker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/devices"
)

func TestAlone(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	volume := func(source corev1.VolumeSource) func(*corev1.Pod, *Sandbox) {
		return func(p *corev1.Pod, _ *Sandbox) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod, *Sandbox)
		want   bool
	}{
		"one container":          {func(*corev1.Pod, *Sandbox) {}, true},
		"one after the other":    {func(p *corev1.Pod, _ *Sandbox) { p.Spec.InitContainers = []corev1.Container{{Name: "i"}} }, true},
		"with its own directory": {volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), true},
		"with what the API has":  {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}), true},
		"with one of the host's": {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), false},
		"two": {func(p *corev1.Pod, _ *Sandbox) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d"})
		}, false},
		"with a sidecar": {func(p *corev1.Pod, _ *Sandbox) { p.Spec.InitContainers = []corev1.Container{{RestartPolicy: &always}} }, false},
		"with one that was added": {func(p *corev1.Pod, _ *Sandbox) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
		}, false},
		"with a device":              {func(_ *corev1.Pod, s *Sandbox) { s.Devices = devices.Assigned{"c": nil} }, false},
		"in the host's network":      {func(_ *corev1.Pod, s *Sandbox) { s.HostNetwork = true }, false},
		"among the host's processes": {func(p *corev1.Pod, _ *Sandbox) { p.Spec.HostPID = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPod(corev1.RestartPolicyNever, "c"), &Sandbox{}
			c.change(p, s)
			if got := alone(p, s); got != c.want {
				t.Errorf("alone: %t", got)
			}
		})
	}
}
