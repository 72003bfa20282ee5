package core

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Age returns how long ago something happened, in kubectl's notation: "5m12s".
func Age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// ContainerNamesAndImages returns the values of the two columns in tables of objects with a pod template.
func ContainerNamesAndImages(containers []corev1.Container) (names, images string) {
	n, i := make([]string, len(containers)), make([]string, len(containers))
	for k, c := range containers {
		n[k], i[k] = c.Name, c.Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
