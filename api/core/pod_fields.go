package core

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// podFields returns the fields that field selectors of Pods may name, in addition to metadata.name and
// metadata.namespace.
func podFields() map[string]func(*corev1.Pod) string {
	return map[string]func(*corev1.Pod) string{
		"spec.nodeName":            func(p *corev1.Pod) string { return p.Spec.NodeName },
		"spec.restartPolicy":       func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) },
		"spec.schedulerName":       func(p *corev1.Pod) string { return p.Spec.SchedulerName },
		"spec.serviceAccountName":  func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
		"spec.hostNetwork":         func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
		"status.phase":             func(p *corev1.Pod) string { return string(p.Status.Phase) },
		"status.podIP":             podIP,
		"status.nominatedNodeName": func(p *corev1.Pod) string { return p.Status.NominatedNodeName },
	}
}

func podIP(p *corev1.Pod) string {
	if len(p.Status.PodIPs) > 0 {
		return p.Status.PodIPs[0].IP
	}
	return p.Status.PodIP
}
