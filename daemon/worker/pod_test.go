package worker

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newPod is a pod that is bound to the node. A container whose name begins with "init:" is an init container.
func newPod(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.Generation = "ns", "p", "u", 1
	pod.Spec.NodeName, pod.Spec.RestartPolicy = "node", policy
	pod.Status.Phase = corev1.PodPending
	for _, name := range names {
		name, init := strings.CutPrefix(name, "init:")
		list := &pod.Spec.Containers
		if init {
			list = &pod.Spec.InitContainers
		}
		*list = append(*list, corev1.Container{Name: name, Image: "busybox"})
	}
	return pod
}
