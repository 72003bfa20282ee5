package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/conditions"
)

// conditions updates the conditions that follow from the containers' states.
func (f *folder) conditions() {
	pod := f.pod
	f.condition(initializedCondition(pod))

	ready := containersReady(pod)
	f.condition(readyCondition(pod, ready))
	ready.Type = corev1.ContainersReady
	f.condition(ready)
	f.condition(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	if c, ok := restartingCondition(pod, f.issued); ok {
		f.condition(c)
	}
}

// sandbox sets PodReadyToStartContainers.
func (f *folder) sandbox(up bool) {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if !up {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonSandboxNotReady, messageSandboxNotReady
	}
	f.condition(c)
}

// isSetUp reports whether the status says that the pod was set up, and not that it was torn down.
func isSetUp(pod *corev1.Pod) bool {
	c := conditions.Find(pod.Status.Conditions, corev1.PodReadyToStartContainers)
	return c != nil && c.Status == corev1.ConditionTrue
}

// tornDown reports whether the status says that nothing of an ended pod is left on the host.
func tornDown(pod *corev1.Pod) bool {
	c := conditions.Find(pod.Status.Conditions, corev1.PodReadyToStartContainers)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == reasonSandboxNotReady
}

func initializedCondition(pod *corev1.Pod) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if pod.Status.Phase == corev1.PodSucceeded {
		c.Reason = reasonPodCompleted
		return c
	}
	var missing []string
	for i := range pod.Spec.InitContainers {
		if !initContainer(pod, i).passed(pod) {
			missing = append(missing, pod.Spec.InitContainers[i].Name)
		}
	}
	if len(missing) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, reasonNotInitialized
		c.Message = "containers with incomplete status: [" + strings.Join(missing, " ") + "]"
	}
	return c
}

func containersReady(pod *corev1.Pod) corev1.PodCondition {
	c := corev1.PodCondition{Status: corev1.ConditionFalse}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		c.Reason = reasonPodCompleted
		return c
	case corev1.PodFailed:
		c.Reason = reasonPodFailed
		return c
	}
	var unready []string
	workload(pod, func(c container) bool {
		if (!c.init || c.sidecar()) && !c.status.Ready {
			unready = append(unready, c.spec.Name)
		}
		return true
	})
	if len(unready) == 0 {
		c.Status = corev1.ConditionTrue
		return c
	}
	c.Reason, c.Message = reasonContainersNotReady, "containers with unready status: ["+strings.Join(unready, " ")+"]"
	return c
}

// readyCondition returns the condition Ready: the containers are ready, and so are the readiness gates.
func readyCondition(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var closed []string
	for _, gate := range pod.Spec.ReadinessGates {
		g := conditions.Find(pod.Status.Conditions, gate.ConditionType)
		switch {
		case g == nil:
			closed = append(closed,
				`corresponding condition of pod readiness gate "`+string(gate.ConditionType)+`" does not exist.`)
		case g.Status != corev1.ConditionTrue:
			closed = append(closed,
				`the status of pod readiness gate "`+string(gate.ConditionType)+`" is not "True", but `+string(g.Status))
		}
	}
	if len(closed) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonReadinessGates, strings.Join(closed, ", ")
	}
	return c
}

// condition sets one condition. Its transition time moves only with its status.
func (f *folder) condition(c corev1.PodCondition) {
	c.ObservedGeneration = f.pod.Generation
	c.LastTransitionTime = seconds(f.now)
	old := conditions.Find(f.pod.Status.Conditions, c.Type)
	if old == nil {
		// The scheduler's is the last one in a cluster, though it was there first.
		list := f.pod.Status.Conditions
		at := len(list)
		if at > 0 && list[at-1].Type == corev1.PodScheduled {
			at--
		}
		f.pod.Status.Conditions = slices.Insert(list, at, c)
		f.changed = true
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	c.LastProbeTime = old.LastProbeTime
	if *old != c {
		*old = c
		f.changed = true
	}
}
