package objects

import corev1 "k8s.io/api/core/v1"

// UnderDiskPressure reports whether a Node's condition says that its disk is nearly full.
func UnderDiskPressure(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue
}
