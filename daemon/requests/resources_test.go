package requests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAmounts(t *testing.T) {
	for _, tc := range []struct {
		name     corev1.ResourceName
		quantity string
		want     int64
	}{
		{"cpu", "100m", 100},
		{"cpu", "2", 2000},
		{"cpu", "0", 0},
		{"cpu", "1n", 1},
		{"cpu", "4611686018427650048m", Most},
		{"cpu", "9223372036854775807", Most},
		{"cpu", "1e30", Most},
		{"memory", "1Gi", 1 << 30},
		{"memory", "500m", 1},
		{"memory", "9223372036854775807", Most},
		{"memory", "16Ei", Most},
		{"memory", "1e30", Most},
		{"memory", "1e400", Most},
		{"cpu", "1e-400", 1},
		{"memory", "-1e30", 0},
		{"example.com/gpu", "3", 3},
	} {
		if got := Amounts(corev1.ResourceList{tc.name: resource.MustParse(tc.quantity)})[tc.name]; got != tc.want {
			t.Errorf("%s of %s is %d, want %d", tc.quantity, tc.name, got, tc.want)
		}
	}
}
