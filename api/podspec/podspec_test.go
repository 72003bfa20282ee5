package podspec

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestContainersAreAllOfThemInOrder(t *testing.T) {
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "a"}, {Name: "b"}},
		Containers:     []corev1.Container{{Name: "c"}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d"}},
		},
	}
	var names []string
	for c := range Containers(spec) {
		names = append(names, c.Name)
		c.Image = "changed"
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if spec.InitContainers[1].Image != "changed" || spec.EphemeralContainers[0].Image != "changed" {
		t.Error("the containers are copies")
	}
	for stop := range names {
		n := 0
		for range Containers(spec) {
			if n == stop {
				break
			}
			n++
		}
	}
}

func TestASidecarIsRestartedAlways(t *testing.T) {
	for _, tc := range []struct {
		policy *corev1.ContainerRestartPolicy
		want   bool
	}{
		{nil, false},
		{ptr.To(corev1.ContainerRestartPolicyNever), false},
		{ptr.To(corev1.ContainerRestartPolicyAlways), true},
	} {
		if got := IsSidecar(&corev1.Container{RestartPolicy: tc.policy}); got != tc.want {
			t.Errorf("%v: %v", ptr.Deref(tc.policy, "no policy"), got)
		}
	}
}
