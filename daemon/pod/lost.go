package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

// lost records the end of a container that was not observed. Unless it is restarted the pod gets the condition
// DisruptionTarget, so that a Job's failure policy can distinguish this from a failure of the pod's own.
func (f *folder) lost(c container, o duty.Observation) {
	started, ended := c.knows(o.Attempt)
	if ended {
		return
	}
	end := corev1.ContainerStateTerminated{
		ExitCode: exitStatusUnknown, Reason: reasonStatusUnknown, Message: messageLost, FinishedAt: seconds(o.At),
	}
	if started {
		end.StartedAt = c.status.State.Running.StartedAt
	} else {
		c.keepLast()
		c.begin(f.pod, o)
	}
	f.end(c, end)
	if !c.ephemeral && !restarts(f.pod, c, &end) {
		f.condition(corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonTerminationByKubelet, Message: messageTerminationByKubelet,
		})
	}
}
