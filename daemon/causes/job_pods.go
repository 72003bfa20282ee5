package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/pod"
)

// shownKinds is how many different ways to fail or to wait are told of one Job.
const shownKinds = 3

// group is a set of pods that fail or wait in the same way, so that one can stand for all.
type group struct{ pods []*corev1.Pod }

// groups puts pods together that have the same key. The groups keep the order of their first pods.
func groups(pods []*corev1.Pod, key func(*corev1.Pod) string) (all []*group) {
	byKey := map[string]*group{}
	for _, p := range pods {
		k := key(p)
		if byKey[k] == nil {
			byKey[k] = &group{}
			all = append(all, byKey[k])
		}
		byKey[k].pods = append(byKey[k].pods, p)
	}
	return all
}

// tell returns what is told of the first groups, and that there are more.
func (v *jobView) tell(kind, verb string, all []*group, explain func(*corev1.Pod) []why.Cause) (told []why.Cause) {
	for i, g := range all {
		if i == shownKinds {
			rest := 0
			for _, other := range all[i:] {
				rest += len(other.pods)
			}
			told = append(told, why.Cause{Type: "More" + kind, Message: fmt.Sprintf("%s %s for other reasons.", pods(rest), verb)})
			break
		}
		p := g.pods[0]
		c := why.Cause{
			Type: kind, Object: about("Pod", p), Causes: explain(p),
			Details: map[string]string{"pods": fmt.Sprint(len(g.pods))},
		}
		what := ""
		if index, ok := p.Annotations[batchv1.JobCompletionIndexAnnotation]; ok {
			what = " for index " + index
			c.Details["index"] = index
			if values := v.valuesOf(index); values != "" {
				what += " (" + values + ")"
				c.Details["values"] = values
			}
		}
		switch n := len(g.pods) - 1; n {
		case 0:
			c.Message = fmt.Sprintf("this pod%s %s.", what, singular(verb))
		case 1:
			c.Message = fmt.Sprintf("this pod%s %s, and 1 other pod%s %s in the same way.", what, singular(verb), v.indexes(g.pods[1:]), singular(verb))
		default:
			c.Message = fmt.Sprintf("this pod%s %s, and %d other pods%s %s in the same way.", what, singular(verb), n, v.indexes(g.pods[1:]), verb)
		}
		told = append(told, c)
	}
	return told
}

// singular returns the form of a verb for one pod: wait, run or failed.
func singular(verb string) string {
	if verb == "failed" {
		return verb
	}
	return verb + "s"
}

// valuesOf returns the values of an index; empty if it has none.
func (w *World) valuesOf(index string) string {
	n, err := strconv.Atoi(index)
	if err != nil {
		return ""
	}
	return w.Values.Words(n)
}

// shownValues is of how many indexes the values are told beside them.
const shownValues = 3

// indexes lists the indexes of a few pods.
func (v *jobView) indexes(list []*corev1.Pod) string {
	var all, shown []string
	for _, p := range list {
		if index, ok := p.Annotations[batchv1.JobCompletionIndexAnnotation]; ok && !slices.Contains(all, index) {
			all = append(all, index)
			if values := v.valuesOf(index); values != "" {
				index += ": " + values
			}
			shown = append(shown, index)
		}
	}
	switch {
	case len(all) == 0:
		return ""
	case len(all) > 10:
		return fmt.Sprintf(" (of %d indexes)", len(all))
	}
	if v.Values != nil && len(all) <= shownValues {
		return " (index " + strings.Join(shown, "; ") + ")"
	}
	return " (index " + strings.Join(all, ", ") + ")"
}

// failed returns the pods of this attempt that have failed.
func (v *jobView) failed() (failed []*corev1.Pod) {
	attempt := batch.AttemptOf(v.job.Annotations)
	for _, p := range v.pods {
		if p.Status.Phase == corev1.PodFailed && batch.PodAttempt(p.Annotations) == attempt {
			failed = append(failed, p)
		}
	}
	return failed
}

// jobFailures are the pods that have failed, the one that decided first.
func jobFailures(v *jobView) []why.Cause {
	failed := v.failed()
	slices.SortFunc(failed, func(a, b *corev1.Pod) int {
		return cmp.Or(boolFirst(v.decided(a), v.decided(b)), finished(b).Compare(finished(a)), cmp.Compare(a.Name, b.Name))
	})
	ways := groups(failed, wayToFail)
	var most []string
	if v.retried() {
		most = v.neededByMost()
	}
	told := v.tell("PodFailed", "failed", ways, func(p *corev1.Pod) []why.Cause {
		view := &podView{World: v.World, pod: p, job: v.job}
		return append(view.causes(), podPolicy(view)...)
	})
	for i := range told {
		if p := told[i].Object; p != nil {
			if hasStarted(ways[i].pods[0]) { // else there is nothing to read
				told[i].Help = append(told[i].Help, fmt.Sprintf("jobctl logs pods/%s%s --all-containers", p.Name, why.InNamespace(p.Namespace)))
			}
			for n := range told[i].Causes {
				told[i].Causes[n].Help = nil
			}
			if need := v.needs(ways[i].pods[0]); v.retried() && slices.ContainsFunc(need, func(flag string) bool { return !slices.Contains(most, flag) }) {
				told[i].Help = append(told[i].Help, v.retry(need))
			}
		}
	}
	// A pod that is deleted counts as failed before it has ended.
	if n := int(v.job.Status.Failed) - v.terminating(); len(failed) == 0 && n > 0 && v.neverStarted() == nil {
		c := why.Cause{Type: "PodsGone", Brief: v.exitCodes()}
		with := ""
		if c.Brief != "" {
			with = " with " + c.Brief
		}
		c.Message = fmt.Sprintf("1 pod failed%s, and its object is gone. What it has printed may still be there.", with)
		if n > 1 {
			c.Message = fmt.Sprintf("%s failed%s, and their objects are gone. What they have printed may still be there.", pods(n), with)
		} else if v.JobLog != nil && v.job.Status.Succeeded == 0 { // then the Job's log is that of the pod
			if c.Log = v.JobLog(v.job); len(c.Log) > 0 {
				c.Message = fmt.Sprintf("1 pod failed%s, and its object is gone. What it has printed is kept.", with)
			}
		}
		c.Help = []string{fmt.Sprintf("jobctl logs jobs/%s%s --prefix --all-restarts", v.job.Name, why.InNamespace(v.job.Namespace))}
		told = append(told, c)
	}
	return told
}

// exitCodes says which exit codes the pods of a Job that has ended had that have failed, the most frequent first; empty if that is not known.
func (v *jobView) exitCodes() string {
	if v.ExitCodes == nil || v.end == nil {
		return ""
	}
	var codes []string
	for _, c := range v.ExitCodes(v.job) {
		if c.Code != 0 {
			codes = append(codes, fmt.Sprint(c.Code))
		}
	}
	switch n := len(codes); n {
	case 0:
		return ""
	case 1:
		return "exit code " + codes[0]
	default:
		return "exit codes " + strings.Join(codes[:n-1], ", ") + " and " + codes[n-1]
	}
}

// terminating is how many pods were deleted and have not ended.
func (v *jobView) terminating() (n int) {
	for _, p := range v.pods {
		if p.DeletionTimestamp != nil && !podspec.Ended(p) {
			n++
		}
	}
	return n
}

// decided reports whether the condition of the Job names a pod.
func (v *jobView) decided(p *corev1.Pod) bool {
	end := cmp.Or(v.end, v.ending())
	return end != nil && end.Reason == batchv1.JobReasonPodFailurePolicy &&
		slices.Contains(strings.Fields(end.Message), p.Namespace+"/"+p.Name)
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// wayToFail is the same for pods that have failed in the same way.
func wayToFail(p *corev1.Pod) string {
	way := []string{p.Status.Reason}
	for s := range podspec.Statuses(p) {
		if end := s.State.Terminated; end != nil {
			way = append(way, fmt.Sprintf("%s %d %s", s.Name, end.ExitCode, end.Reason))
		}
	}
	return strings.Join(way, "|")
}

// jobWaiting are the pods that do not run yet, or not now.
func jobWaiting(v *jobView) []why.Cause {
	if v.end != nil {
		return nil
	}
	var waiting []*corev1.Pod
	for _, p := range v.pods {
		if !podspec.Ended(p) && (p.Status.Phase != corev1.PodRunning || len(pod.Restarts(p)) > 0) {
			waiting = append(waiting, p)
		}
	}
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int {
		_, known := v.Rooms[a.UID]
		_, other := v.Rooms[b.UID]
		return cmp.Or(boolFirst(known, other), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return v.tell("PodWaits", "wait", groups(waiting, wayToWait), func(p *corev1.Pod) []why.Cause {
		return (&podView{World: v.World, pod: p, job: v.job}).causes()
	})
}

// wayToWait is the same for pods that wait in the same way.
func wayToWait(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "deleted"
	}
	if p.Spec.NodeName == "" {
		return fmt.Sprintf("unbound %d", len(p.Spec.SchedulingGates))
	}
	way := []string{string(p.Status.Phase)}
	for s := range podspec.Statuses(p) {
		if w := s.State.Waiting; w != nil {
			way = append(way, s.Name+" "+strings.TrimPrefix(w.Reason, "Err"))
		}
	}
	return strings.Join(way, "|")
}

// jobRunning are the pods that run.
func jobRunning(v *jobView) []why.Cause {
	if v.end != nil {
		return nil
	}
	var running []*corev1.Pod
	for _, p := range v.pods {
		if p.Status.Phase == corev1.PodRunning && len(pod.Restarts(p)) == 0 {
			running = append(running, p)
		}
	}
	if len(running) == 0 {
		return nil
	}
	return v.tell("PodRuns", "run", groups(running, func(p *corev1.Pod) string { return fmt.Sprint(p.DeletionTimestamp != nil, restartCount(p) > 0) }),
		func(p *corev1.Pod) []why.Cause {
			return (&podView{World: v.World, pod: p, job: v.job}).causes()
		})
}

func restartCount(p *corev1.Pod) (n int32) {
	for i := range p.Status.ContainerStatuses {
		n += p.Status.ContainerStatuses[i].RestartCount
	}
	return n
}
