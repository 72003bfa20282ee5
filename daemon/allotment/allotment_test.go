package allotment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAPodHasWhatItsStatusSaysUntilTheSpecIsAdmitted(t *testing.T) {
	with := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
	}
	was := with("1")
	p := &corev1.Pod{}
	p.Generation = 2
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: with("2")}, {Name: "new", Resources: with("3")}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: &was}}
	got := Of(p)
	if got == p || got.Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 || got.Spec.Containers[1].Resources.Requests.Cpu().Value() != 3 {
		t.Errorf("%+v", got.Spec.Containers)
	}
	if p.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Error("the pod itself was changed")
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress, ObservedGeneration: 2}}
	if Of(p) != p || !Admitted(p) || !IsResized(p) {
		t.Error("what is admitted is not what it has")
	}
}
