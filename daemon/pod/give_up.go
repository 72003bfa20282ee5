package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/podspec"
)

// GiveUp makes a pod one that has failed and of which nothing is left on the host, whatever is known of it. The caller has
// it torn down.
func GiveUp(pod *corev1.Pod, now time.Time) {
	if !podspec.Ended(pod) {
		pod.Status.Phase = corev1.PodFailed
	}
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			if s := &statuses[i]; s.State.Terminated == nil {
				s.Ready = false
				s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: exitStatusUnknown, Reason: reasonStatusUnknown, Message: messageNotLocated,
				}}
			}
		}
	}
	for kind, reason := range map[corev1.PodConditionType]string{
		corev1.PodReady: reasonPodFailed, corev1.ContainersReady: reasonPodFailed, corev1.PodReadyToStartContainers: reasonSandboxNotReady,
	} {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(now)}
		if kind == corev1.PodReadyToStartContainers {
			c.Message = messageSandboxNotReady
		}
		conditions.Set(&pod.Status.Conditions, c)
	}
}
