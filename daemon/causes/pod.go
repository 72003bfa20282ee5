package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/exits"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/pod"
)

// podView is a pod in its world.
type podView struct {
	World
	pod *corev1.Pod
	job *batchv1.Job // nil: none
	// whole says that the pod itself was asked about, and not its Job.
	whole bool
}

// ends explains how containers of the pod have ended.
func (v *podView) ends() *exits.Pod {
	return &exits.Pod{Pod: v.pod, Job: v.job, Events: v.Events, Decides: v.Source == why.FromRecords, Peak: v.Peak}
}

// causes returns the reasons for the pod's state.
func (v *podView) causes() []why.Cause {
	all := Gather(podCauses, v)
	if v.elsewhere() {
		withoutHelp(all)
	}
	return all
}

// withoutHelp removes the commands that help on the machine itself.
func withoutHelp(causes []why.Cause) {
	for i := range causes {
		causes[i].Help = nil
		withoutHelp(causes[i].Causes)
	}
}

// elsewhere reports whether the pod belongs to another node than this machine.
func (v *podView) elsewhere() bool {
	return v.Node != "" && v.pod.Spec.NodeName != "" && v.pod.Spec.NodeName != v.Node
}

// podElsewhere is spec.nodeName of another machine.
func podElsewhere(v *podView) []why.Cause {
	if !v.elsewhere() || v.ended() {
		return nil
	}
	if clusters.Shown(v.pod) {
		return podInCluster(v)
	}
	c := why.Cause{
		Type: "OtherNode", Details: map[string]string{"node": v.pod.Spec.NodeName}, Since: why.At(v.pod.CreationTimestamp.Time),
		Brief:   fmt.Sprintf("spec.nodeName is %s, and this machine is %s", v.pod.Spec.NodeName, v.Node),
		Message: fmt.Sprintf("Its spec.nodeName is %s, and this machine is the node %s, so nothing here starts it.", v.pod.Spec.NodeName, v.Node),
	}
	if len(v.statuses()) > 0 || v.pod.Status.Phase == corev1.PodRunning {
		c.Brief = "it belongs to the node " + v.pod.Spec.NodeName
		c.Message = fmt.Sprintf("It belongs to the node %s, and this machine is %s: what is known of it is what its status says, "+
			"and its logs and images are on that node.",
			v.pod.Spec.NodeName, v.Node)
	}
	return []why.Cause{c}
}

// state returns the state of the pod, and a sentence about it with what why.Reason says.
func (v *podView) state(reason string) (state, message string) {
	s := &v.pod.Status
	if reason != "" {
		reason = ": " + why.Sentence(reason)
	}
	switch {
	case s.Phase == corev1.PodSucceeded:
		return "Succeeded", "has succeeded."
	case s.Phase == corev1.PodFailed:
		return "Failed", "has failed" + cmp.Or(reason, ".")
	case v.pod.DeletionTimestamp != nil:
		return "Terminating", "is being deleted."
	case s.Phase == corev1.PodRunning && len(pod.Restarts(v.pod)) == 0:
		return "Running", "runs" + cmp.Or(reason, ".")
	case s.Phase == corev1.PodRunning:
		return "Waiting", "waits for a restart" + cmp.Or(reason, ".")
	}
	return "Waiting", "has not started yet" + cmp.Or(reason, ".")
}

func (v *podView) ended() bool { return podspec.Ended(v.pod) }

func (v *podView) condition(t corev1.PodConditionType) *corev1.PodCondition {
	for i := range v.pod.Status.Conditions {
		if c := &v.pod.Status.Conditions[i]; c.Type == t {
			return c
		}
	}
	return nil
}

// statuses returns the status of each container, init containers first.
func (v *podView) statuses() []*corev1.ContainerStatus {
	return slices.Collect(podspec.Statuses(v.pod))
}

// podTerminating is the deletion of a pod.
func podTerminating(v *podView) []why.Cause {
	p := v.pod
	if p.DeletionTimestamp == nil {
		return nil
	}
	c := why.Cause{Type: "Terminating", Message: "It was deleted.", Brief: "being deleted"}
	switch {
	case !v.ended():
		c.Message = "It was deleted, and its containers have until the end of their grace period before they are killed."
		c.Until = why.At(p.DeletionTimestamp.Time)
	case v.Dependents.Causes(p) != nil:
		return v.Dependents.Causes(p)
	case len(p.Finalizers) > 0:
		c.Type = "FinalizersHold"
		c.Message = "It was deleted and has ended; its finalizers hold the object: " + strings.Join(p.Finalizers, ", ") + "."
	}
	for _, s := range v.statuses() {
		if v.ended() && s.State.Terminated != nil && s.State.Terminated.ExitCode != 0 {
			c.Brief = "" // that says more: with restartPolicy OnFailure a Job that fails deletes its pods
		}
	}
	return []why.Cause{c}
}

// podGated is spec.schedulingGates.
func podGated(v *podView) []why.Cause {
	var names []string
	for _, g := range v.pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	if len(names) == 0 || v.ended() || v.pod.Spec.NodeName != "" {
		return nil
	}
	return []why.Cause{{
		Type: "SchedulingGated", Brief: "scheduling gates: " + strings.Join(names, ", "),
		Message: "It may not start before somebody removes its scheduling gates: " + strings.Join(names, ", ") + ".",
		Help:    []string{fmt.Sprintf("jobctl get pods/%s%s -o jsonpath='{.spec.schedulingGates}'", v.pod.Name, why.InNamespace(v.pod.Namespace))},
	}}
}

// podUnscheduled is what a scheduler says, where nothing better is known.
func podUnscheduled(v *podView) []why.Cause {
	if v.ended() || v.pod.Spec.NodeName != "" || len(v.pod.Spec.SchedulingGates) > 0 || v.pod.DeletionTimestamp != nil {
		return nil
	}
	if _, ok := v.Rooms[v.pod.UID]; ok {
		return nil
	}
	if _, ok := v.Claims[v.pod.UID]; ok || len(podWindow(v)) > 0 {
		return nil
	}
	c := v.condition(corev1.PodScheduled)
	if c == nil || c.Status == corev1.ConditionTrue {
		return []why.Cause{{
			Type: "NotScheduled", Message: "It has not been assigned to a node yet.", Brief: "not assigned to a node yet",
			Since: why.At(v.pod.CreationTimestamp.Time),
		}}
	}
	return []why.Cause{{
		Type: "Unschedulable", Message: "The scheduler found no node for it: " + why.Sentence(c.Message), Brief: why.Clause(c.Message),
		Since: why.At(c.LastTransitionTime.Time),
	}}
}

// podDisrupted is what ended a pod from outside.
func podDisrupted(v *podView) []why.Cause {
	c := v.condition(corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason == corev1.PodReasonTerminationByKubelet && len(podRejected(v)) > 0 {
		return nil
	}
	message := map[string]string{
		corev1.PodReasonPreemptionByScheduler: "It was preempted: it had to make room for a pod of a higher priority.",
		"DeletionByTaintManager":              "It was evicted because of a taint of the node that it does not tolerate.",
		"EvictionByEvictionAPI":               "It was evicted through the API, as kubectl drain does.",
		corev1.PodReasonTerminationByKubelet:  "The node ended it: it took too much of the node, or was lost when the host went down.",
	}[c.Reason]
	if message == "" {
		message = "It was disrupted (" + c.Reason + ")."
	}
	return []why.Cause{{
		Type: "Disrupted", Message: message + " " + why.Sentence(c.Message), Brief: why.Clause(
			strings.TrimPrefix(message, "It was "),
		), Since: why.At(c.LastTransitionTime.Time),
		Details: map[string]string{"reason": c.Reason},
	}}
}

// podRejected is the end of a pod for another reason than its containers.
func podRejected(v *podView) []why.Cause {
	s := &v.pod.Status
	if s.Phase != corev1.PodFailed || s.Reason == "" {
		return nil
	}
	c := why.Cause{
		Type: s.Reason, Message: why.Sentence(s.Message), Details: map[string]string{"reason": s.Reason},
		Brief: strings.TrimSuffix(s.Reason+": "+why.Clause(s.Message), ": "),
	}
	switch s.Reason {
	case "Evicted":
		c.Message = "It was evicted because it, or the node, took too much: " + c.Message
	case "Preempting":
		c.Message = "It made room for a critical pod whose manifest names this node."
	case "DeadlineExceeded":
		c.Brief = "ran longer than the pod's activeDeadlineSeconds of " + seconds(v.pod.Spec.ActiveDeadlineSeconds)
		c.Message = fmt.Sprintf("It ran longer than its activeDeadlineSeconds (%s) allows.", seconds(v.pod.Spec.ActiveDeadlineSeconds))
	}
	return []why.Cause{c}
}

func seconds(n *int64) string {
	if n == nil {
		return "none"
	}
	return podspec.Seconds(*n).String()
}

// podDeadline is the deadline of a pod that is to come.
func podDeadline(v *podView) []why.Cause {
	end, ok := pod.Deadline(v.pod)
	if v.ended() || !ok {
		return nil
	}
	if grace := v.pod.Spec.TerminationGracePeriodSeconds; !end.After(v.Now) && grace != nil {
		return []why.Cause{{
			Type: "DeadlinePassed", Since: why.At(end), Until: why.At(end.Add(podspec.Seconds(*grace))),
			Message: fmt.Sprintf("Its activeDeadlineSeconds of %s has passed, so it was told to stop, and is killed at the end of its grace period of %s.",
				seconds(v.pod.Spec.ActiveDeadlineSeconds), seconds(grace)),
		}}
	}
	return []why.Cause{{
		Type:    "Deadline",
		Message: fmt.Sprintf("Its activeDeadlineSeconds of %s will end it.", seconds(v.pod.Spec.ActiveDeadlineSeconds)),
		Until:   why.At(end),
	}}
}

// podInitializes is an init container that runs, before all others.
func podInitializes(v *podView) []why.Cause {
	if v.ended() || v.pod.Status.Phase != corev1.PodPending || v.pod.DeletionTimestamp != nil {
		return nil
	}
	for i := range v.pod.Status.InitContainerStatuses {
		if s := &v.pod.Status.InitContainerStatuses[i]; s.State.Running != nil && !v.sidecar(s.Name) {
			return []why.Cause{{
				Type: "Initializing", Brief: "init container " + s.Name + " runs", Since: why.At(s.State.Running.StartedAt.Time),
				Message: fmt.Sprintf("Its init container %s runs, and the others start once it has succeeded.", s.Name),
				Details: map[string]string{"container": s.Name}, Help: v.showLog(s.Name),
			}}
		}
	}
	return nil
}

// sidecar reports whether a container is an init container that runs beside the others.
func (v *podView) sidecar(name string) bool {
	return slices.ContainsFunc(v.pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name && podspec.IsSidecar(&c) })
}

// podRestarts is the back-off of containers that are restarted in their pod.
func podRestarts(v *podView) (all []why.Cause) {
	for _, r := range pod.Restarts(v.pod) {
		c := why.Cause{
			Type: "CrashLoopBackOff",
			Message: fmt.Sprintf("Container %s waits to be started again: it was restarted %s. The wait doubles each time, "+
				"up to %s, and a run of 10 minutes ends it.",
				r.Container, strings.TrimSuffix(times(int(r.Restarts)), " in a row"), r.Cap),
			Until:   why.At(r.At),
			Details: map[string]string{"container": r.Container, "restarts": fmt.Sprint(r.Restarts), "cap": r.Cap.String()},
		}
		inner := v.ends().Cause(r.Container, r.Last)
		inner.Log = v.log(r.Container, false)
		inner.Help = v.showLog(r.Container)
		exits.NotExecuted(&inner)
		c.Brief = "crash loop: " + inner.Brief
		c.Causes = []why.Cause{inner}
		all = append(all, c)
	}
	return all
}

// podExits is how containers have ended that are not restarted.
func podExits(v *podView) (all []why.Cause) {
	waiting := map[string]bool{}
	for _, r := range pod.Restarts(v.pod) {
		waiting[r.Container] = true
	}
	for _, s := range v.statuses() {
		end := s.State.Terminated
		if end == nil || !podspec.HasFailed(&v.pod.Spec, s.Name, end) || waiting[s.Name] {
			if s.State.Running != nil && s.LastTerminationState.Terminated != nil && s.RestartCount > 0 {
				all = append(all, v.restarted(s))
			}
			continue
		}
		c := v.ends().Cause(s.Name, end)
		c.Log = v.log(s.Name, false)
		c.Help = v.showLog(s.Name)
		exits.NotExecuted(&c)
		all = append(all, c)
	}
	return all
}

// restarted is a container that runs again after a failure.
func (v *podView) restarted(s *corev1.ContainerStatus) why.Cause {
	inner := v.ends().Cause(s.Name, s.LastTerminationState.Terminated)
	inner.Log = v.log(s.Name, true)
	exits.NotExecuted(&inner)
	inner.Brief = "" // it runs again
	return why.Cause{
		Type:    "Restarted",
		Message: fmt.Sprintf("Container %s runs again: it was restarted %s.", s.Name, strings.TrimSuffix(times(int(s.RestartCount)), " in a row")),
		Since:   why.At(s.State.Running.StartedAt.Time), Causes: []why.Cause{inner},
		Details: map[string]string{"container": s.Name, "restarts": fmt.Sprint(s.RestartCount)},
	}
}

func (v *podView) log(container string, previous bool) []string {
	if v.Log == nil {
		return nil
	}
	return v.Log(v.pod, container, previous)
}

func (v *podView) showLog(container string) []string {
	return []string{fmt.Sprintf("jobctl logs pods/%s%s -c %s", v.pod.Name, why.InNamespace(v.pod.Namespace), container)}
}

// podProbes is what keeps a running pod from being ready.
func podProbes(v *podView) (all []why.Cause) {
	if v.ended() || v.pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	ready := v.condition(corev1.PodReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return nil
	}
	e := v.LastEvent(v.pod.UID, "Unhealthy", "ProbeWarning", "FailedPostStartHook", "FailedPreStopHook")
	if e == nil && (ready == nil || len(pod.Restarts(v.pod)) > 0 || v.pod.DeletionTimestamp != nil) {
		return nil
	}
	if e == nil {
		return []why.Cause{{
			Type: "NotReady", Message: "It runs, and is not ready: " + why.Sentence(ready.Message), Brief: "not ready: " + why.Clause(ready.Message),
			Since: why.At(ready.LastTransitionTime.Time),
		}}
	}
	return []why.Cause{{Type: e.Reason, Message: why.Sentence(e.Message), Brief: "not ready: " + why.Clause(e.Message), Since: why.At(core.LastSeen(e))}}
}

// podGrown says why a pod has more memory than the template of its Job says.
func podGrown(v *podView) []why.Cause {
	kills, err := strconv.Atoi(v.pod.Annotations[batch.OOMKillsAnnotation])
	if err != nil || v.job == nil || v.Source != why.FromRecords {
		return nil
	}
	var more []string
	template := &corev1.Pod{Spec: v.job.Spec.Template.Spec}
	for c := range podspec.Containers(&v.pod.Spec) {
		for was := range podspec.Containers(&template.Spec) {
			now, before := c.Resources.Limits.Memory(), was.Resources.Limits.Memory()
			if c.Name == was.Name && now.Cmp(*before) > 0 {
				more = append(more, fmt.Sprintf("%s instead of %s in container %s", now, before, c.Name))
			}
		}
	}
	if len(more) == 0 {
		return nil
	}
	return []why.Cause{{
		Type: "MoreMemory", Details: map[string]string{"kills": fmt.Sprint(kills)},
		Message: fmt.Sprintf("It has more memory than its Job's template says, %s, since pods before it were killed for want of "+
			"memory (annotation %s of the Job).",
			strings.Join(more, " and "), batch.OOMMemoryFactorAnnotation),
	}}
}

// podRuns says that a pod runs as it should.
func podRuns(v *podView) []why.Cause {
	if v.ended() || !v.whole || v.pod.DeletionTimestamp != nil {
		return nil
	}
	for _, s := range v.statuses() {
		if s.State.Running != nil && s.RestartCount == 0 {
			return []why.Cause{{
				Type: "Running", Message: fmt.Sprintf("Container %s runs.", s.Name), Since: why.At(s.State.Running.StartedAt.Time),
				Help: v.showLog(s.Name),
			}}
		}
	}
	return nil
}

// podPolicy says which rule of its Job's podFailurePolicy a failed pod matches, and why it matches no other.
func podPolicy(v *podView) []why.Cause {
	if v.job == nil || v.job.Spec.PodFailurePolicy == nil || v.pod.Status.Phase != corev1.PodFailed {
		return nil
	}
	c := why.Cause{Type: "PodFailurePolicy", Message: "No rule of podFailurePolicy matches it, so it counts against backoffLimit."}
	for _, r := range job.JudgeFailure(v.job, v.pod) {
		inner := why.Cause{
			Type: "RuleNotMatched", Details: map[string]string{"rule": fmt.Sprint(r.Index), "action": string(r.Action)},
			Message: fmt.Sprintf("Rule %d (%s) does not match: %s", r.Index, r.Action, why.Sentence(r.Reason)),
		}
		switch {
		case r.Matched:
			c.Message = fmt.Sprintf("Rule %d of podFailurePolicy matches it: %s", r.Index, effect(r.Action))
			inner.Type = "RuleMatched"
			inner.Message = fmt.Sprintf("Rule %d (%s) matches: %s", r.Index, r.Action, why.Sentence(r.Reason))
		case !r.Reached:
			inner.Type = "RuleNotReached"
			inner.Message = fmt.Sprintf("Rule %d (%s) was not looked at, since one before it matches.", r.Index, r.Action)
		}
		c.Causes = append(c.Causes, inner)
	}
	return []why.Cause{c}
}

// effect returns what an action of podFailurePolicy does.
func effect(a batchv1.PodFailurePolicyAction) string {
	return map[batchv1.PodFailurePolicyAction]string{
		batchv1.PodFailurePolicyActionFailJob:   "FailJob ends the whole Job.",
		batchv1.PodFailurePolicyActionFailIndex: "FailIndex ends this index, and no other.",
		batchv1.PodFailurePolicyActionIgnore:    "Ignore does not count the failure, and another pod takes its place.",
		batchv1.PodFailurePolicyActionCount:     "Count counts the failure against backoffLimit.",
	}[a]
}

// finished returns when the last container of a pod ended.
func finished(p *corev1.Pod) time.Time {
	if end := pod.FilesEnd(p); !end.IsZero() {
		return end
	}
	return p.CreationTimestamp.Time
}

// since returns when a pod was bound to its node; nil if it was not.
func since(p *corev1.Pod) *metav1.Time {
	if p.Status.StartTime == nil {
		return nil
	}
	return why.At(p.Status.StartTime.Time)
}
