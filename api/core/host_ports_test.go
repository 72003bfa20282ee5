package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Containers run at once and share the ports of the host. A conflict is named where it stands.
func TestHostPortConflicts(t *testing.T) {
	first := corev1.Container{Ports: []corev1.ContainerPort{{HostPort: 80}, {}, {HostPort: 81, Protocol: "UDP"}, {}}}
	second := corev1.Container{Ports: []corev1.ContainerPort{{HostPort: 81}, {HostPort: 80}, {HostPort: 81, Protocol: "UDP", HostIP: "10.0.0.1"}}}
	path, taken := field.NewPath("containers"), map[string]bool{}
	var at []string
	for i, c := range []corev1.Container{first, second} {
		for _, err := range hostPortConflicts(&c, path.Index(i), taken) {
			at = append(at, err.Field)
		}
	}
	if want := []string{"containers[1].ports[1].hostPort"}; !slices.Equal(at, want) {
		t.Errorf("%v, want %v", at, want)
	}
}
