package podspec

import corev1 "k8s.io/api/core/v1"

// TerminationMessage returns what a pod has left behind as the termination message of a container: of one that has failed, else of the
// first that has one.
func TerminationMessage(p *corev1.Pod) (message string) {
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range list {
			t := list[i].State.Terminated
			if t == nil || t.Message == "" {
				continue
			}
			if HasFailed(&p.Spec, list[i].Name, t) {
				return t.Message
			}
			if message == "" {
				message = t.Message
			}
		}
	}
	return message
}
