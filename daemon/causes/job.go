package causes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/job"
)

// jobView is a Job with its pods in its world.
type jobView struct {
	World
	job  *batchv1.Job
	pods []*corev1.Pod
	end  *batchv1.JobCondition // nil: it goes on
}

func (v *jobView) suspended() bool { return ptr.Deref(v.job.Spec.Suspend, false) }

// ending returns the interim condition of a Job that is about to end; nil if it has ended or goes on.
func (v *jobView) ending() *batchv1.JobCondition { return batch.Ending(&v.job.Status) }

// state returns the state of the Job, and a sentence about it with what why.Reason says.
func (v *jobView) state(reason string) (state, message string) {
	switch state = batch.State(v.job); state {
	case batch.StateFailed:
		if message = "has failed (" + v.end.Reason + ")."; reason != "" {
			message = "has failed (" + v.end.Reason + "): " + why.Sentence(reason)
		}
	case batch.StateComplete:
		message = "is complete (" + v.end.Reason + ")."
	case batch.StateTerminating:
		message = "is being deleted."
	case batch.StateFailing:
		message = "is about to fail, and waits for its last pods to end."
	case batch.StateCompleting:
		message = "is about to complete, and waits for its last pods to end."
	case batch.StateSuspended:
		message = "is suspended."
	case batch.StatePaused:
		message = "is paused: " + v.progress()
	case batch.StatePreempted:
		message = "is preempted: " + v.progress()
	case batch.StateRunning:
		message = "runs" + v.where() + ": " + v.progress()
	default:
		switch {
		case reason != "":
			message = "waits: " + why.Sentence(reason) + " So far " + v.progress()
		case v.job.Status.Active > 0:
			message = "waits, since none of its pods is ready: " + v.progress()
		default:
			message = "waits, and has no pod now: " + v.progress()
		}
	}
	return state, message
}

func (v *jobView) progress() string {
	s := &v.job.Status
	of := ""
	if v.job.Spec.Completions != nil {
		of = fmt.Sprintf(" of %d", *v.job.Spec.Completions)
	}
	return fmt.Sprintf("%d%s succeeded, %d failed, %d active.", s.Succeeded, of, s.Failed, s.Active)
}

// jobElsewhere is spec.managedBy.
func jobElsewhere(v *jobView) []why.Cause {
	if job.Managed(v.job) {
		return nil
	}
	if cluster := clusters.Of(v.job); cluster != "" {
		return jobInCluster(v, cluster)
	}
	return []why.Cause{{
		Type: "ManagedElsewhere", Brief: "managed by " + *v.job.Spec.ManagedBy + ", not here",
		Message: fmt.Sprintf("Its spec.managedBy names the controller %s, so nothing here starts its pods.", *v.job.Spec.ManagedBy),
	}}
}

// jobEnd is why a Job has ended, or is about to.
func jobEnd(v *jobView) []why.Cause {
	end := v.end
	if end == nil {
		end = v.ending()
	}
	if end == nil {
		return nil
	}
	c := why.Cause{
		Type: end.Reason, Message: why.Sentence(end.Message), Since: why.At(end.LastTransitionTime.Time),
		Details: map[string]string{"reason": end.Reason},
	}
	spec, status := &v.job.Spec, &v.job.Status
	switch end.Reason {
	case batchv1.JobReasonBackoffLimitExceeded:
		limit := ptr.Deref(spec.BackoffLimit, 6)
		c.Details["backoffLimit"], c.Details["failed"] = fmt.Sprint(limit), fmt.Sprint(status.Failed)
		c.Message = fmt.Sprintf("%s failed, and its backoffLimit of %d allows no more.", pods(int(status.Failed)), limit)
		if spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
			c.Message = fmt.Sprintf(
				"Its pods failed, or were restarted in place (restartPolicy OnFailure), more often than its backoffLimit of %d "+
					"allows. With that policy the pod is deleted at the end; restartPolicy Never keeps failed pods.",
				limit,
			)
		}
	case batchv1.JobReasonDeadlineExceeded:
		c.Brief = "ran longer than its activeDeadlineSeconds of " + seconds(spec.ActiveDeadlineSeconds)
		c.Details["activeDeadlineSeconds"] = fmt.Sprint(ptr.Deref(spec.ActiveDeadlineSeconds, 0))
		c.Message = fmt.Sprintf("It was active for longer than its activeDeadlineSeconds (%s), so its pods were ended.",
			seconds(spec.ActiveDeadlineSeconds))
		if e := v.neverStarted(); e != nil {
			c.Brief, c.Causes = "", []why.Cause{v.unstarted(e)}
			return []why.Cause{c}
		}
	case batchv1.JobReasonMaxFailedIndexesExceeded:
		c.Details["failedIndexes"] = ptr.Deref(status.FailedIndexes, "")
		c.Message = fmt.Sprintf(
			"Indexes that have failed: %s. Its maxFailedIndexes of %d allows no more.", ptr.Deref(status.FailedIndexes, ""),
			ptr.Deref(spec.MaxFailedIndexes, 0),
		)
	case batchv1.JobReasonFailedIndexes:
		c.Details["failedIndexes"] = ptr.Deref(status.FailedIndexes, "")
		rest := "All others have succeeded."
		if status.CompletedIndexes == "" {
			rest = "None has succeeded."
		}
		c.Message = fmt.Sprintf(
			"Indexes that have failed for good: %s (backoffLimitPerIndex %d). %s",
			ptr.Deref(status.FailedIndexes, ""), ptr.Deref(spec.BackoffLimitPerIndex, 0), rest,
		)
	case batchv1.JobReasonCompletionsReached:
		c.Message = fmt.Sprintf("It has all the completions that it needs: %s succeeded.", have(int(status.Succeeded)))
	case batchv1.JobReasonSuccessPolicy:
		c.Message = "Its successPolicy is met: " + why.Sentence(end.Message)
	}
	switch {
	case !v.retried():
	case v.mostNeverRan():
		c.Message += fmt.Sprintf(" Another attempt would end in the same way: correct the command, by \"jobctl submit --replace -f FILE\", "+
			"or what is executed, in a volume or with \"%s\".", v.retry([]string{"--image IMAGE"}))
	default:
		c.Help = append(c.Help, v.retry(v.neededByMost()))
	}
	if v.end == nil {
		if n := int(ptr.Deref(status.Terminating, 0)); n == 1 {
			c.Message += " It ends once the pod that is still terminating has gone."
		} else {
			c.Message += fmt.Sprintf(" It ends once %s that are still terminating have gone.", pods(n))
		}
	}
	return []why.Cause{c}
}

// jobAttempts are the attempts before this one, of a Job that was retried.
func jobAttempts(v *jobView) []why.Cause {
	before := batch.Attempts(v.job.Annotations)
	if len(before) == 0 {
		return nil
	}
	c := why.Cause{
		Type: "Retried", Message: fmt.Sprintf("This is attempt %d.", batch.AttemptOf(v.job.Annotations)),
		Since:   why.At(before[len(before)-1].RetriedAt.Time),
		Details: map[string]string{"attempt": fmt.Sprint(batch.AttemptOf(v.job.Annotations))},
	}
	for _, a := range before {
		inner := why.Cause{
			Type: "AttemptFailed", Since: why.At(a.EndTime.Time),
			Message: fmt.Sprintf("Attempt %d failed (%s), with %d succeeded and %s failed.", a.Attempt, a.Reason, a.Succeeded, pods(int(a.Failed))),
			Details: map[string]string{"attempt": fmt.Sprint(a.Attempt), "reason": a.Reason},
		}
		if a.FailedIndexes != "" {
			inner.Message += " Indexes that had failed: " + a.FailedIndexes + "."
		}
		if len(a.Changes) > 0 {
			inner.Message += " Changed after it: " + strings.Join(a.Changes, "; ") + "."
		}
		c.Causes = append(c.Causes, inner)
	}
	return []why.Cause{c}
}

func failures(n int64) string {
	if n == 1 {
		return "1 failure"
	}
	return fmt.Sprintf("%d failures", n)
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// have says that pods have done something.
func have(n int) string {
	if n == 1 {
		return "1 pod has"
	}
	return pods(n) + " have"
}

// jobTerminating is the deletion of a Job.
func jobTerminating(v *jobView) []why.Cause {
	if v.job.DeletionTimestamp == nil {
		return nil
	}
	if waits := v.Dependents.Causes(v.job); waits != nil {
		return waits
	}
	if waits := jobLeavesCluster(v); waits != nil {
		return waits
	}
	c := why.Cause{
		Type: "Terminating", Since: why.At(v.job.DeletionTimestamp.Time),
		Message: "It was deleted, and goes once its finalizers are gone: " + strings.Join(v.job.Finalizers, ", ") + ".",
	}
	if n := ptr.Deref(v.job.Status.Terminating, 0) + v.job.Status.Active; n > 0 {
		c.Message += fmt.Sprintf(" %s are still there.", pods(int(n)))
	}
	return []why.Cause{c}
}

// jobSuspended is spec.suspend.
func jobSuspended(v *jobView) []why.Cause {
	if !v.suspended() || v.end != nil || v.awaits() {
		return nil
	}
	if m := batch.MovingOf(v.job.Annotations); m != nil && v.Source == why.FromRecords {
		return []why.Cause{v.moving(m)}
	}
	c := why.Cause{Type: "Suspended", Message: "Its spec.suspend is true, so it has no pods.", Brief: "suspended", Details: map[string]string{}}
	if name, when := why.Manager(v.job, "spec", "suspend"); name != "" {
		c.Message = fmt.Sprintf("%s has set its spec.suspend to true, so it has no pods.", name)
		c.Brief = "suspended by " + name
		c.Details["manager"] = name
		c.Since = why.At(when)
	}
	if workload := batch.HandedOut(&v.job.ObjectMeta); workload != "" && v.Source == why.FromRecords {
		c.Message += fmt.Sprintf(" A manager of MultiKueue has made it, and it starts once its Workload %s is admitted here.", workload)
		c.Details["workload"] = workload
	}
	if batch.AwaitsKueue(&v.job.ObjectMeta, &v.job.Spec) && v.Source == why.FromRecords {
		c.Message += " Its label " + batch.KueueLabel + " has no effect here: there is no Kueue that would resume it."
	}
	if batch.Awaits(v.job) {
		c.Message += fmt.Sprintf(" Its annotation %s has no effect here: this is no jobd, which would resume it.", batch.HeldBy(v.job.Annotations))
	}
	c.Help = []string{v.resume()}
	if set, _ := batch.SetOf(v.job); set != "" { // which would suspend it again
		c.Help = nil
		c.Message += fmt.Sprintf(" Its JobSet %s decides about that.", set)
	}
	if env, ok := batch.IndexEnvOf(v.job); ok && v.Missing != nil {
		if missing, known := v.Missing("ConfigMap", v.job.Namespace, env.ConfigMap); missing && known {
			c.Message += fmt.Sprintf(" The ConfigMap %s with the values of its indexes (%s) does not exist: what has created the Job ended before it had created that.",
				env.ConfigMap, batch.IndexEnvAnnotation)
			c.Brief += "; ConfigMap " + env.ConfigMap + " does not exist"
			c.Help = []string{fmt.Sprintf("jobctl delete jobs/%s%s", v.job.Name, why.InNamespace(v.job.Namespace))}
		}
	}
	if batch.Paused(v.job.Annotations) && v.Source == why.FromRecords {
		c.Message += fmt.Sprintf(" It is paused, too (%s): once it is resumed, it begins when somebody continues it.", batch.PausedAnnotation)
		c.Help = append(c.Help, v.goOn())
	}
	return []why.Cause{c}
}

// jobRefused is why pods cannot be created.
func jobRefused(v *jobView) []why.Cause {
	if v.end != nil || v.job.DeletionTimestamp != nil {
		return nil
	}
	refused := v.Standing != nil && v.Standing.Refused > 0
	e := v.LastEvent(v.job.UID, "FailedCreate")
	if e == nil || !refused && v.Source == why.FromRecords || v.job.Status.Active > 0 && !refused {
		return nil
	}
	c := why.Cause{Type: "PodRefused", Since: why.At(core.LastSeen(e)), Details: map[string]string{}}
	refusal := strings.TrimPrefix(e.Message, "Error creating: ")
	c.Message = "Its pods cannot be created: " + why.Sentence(refusal)
	c.Brief = why.Clause(refusalOf(refusal))
	if found := lacksAccount.FindStringSubmatch(refusal); found != nil {
		c.Help = []string{fmt.Sprintf("jobctl create serviceaccount %s%s", why.Word(found[1]), why.InNamespace(v.job.Namespace))}
	}
	if refused {
		c.Details["failures"] = fmt.Sprint(v.Standing.Refused)
		c.Until = why.At(v.Standing.RefusedUntil)
		c.Message += fmt.Sprintf(" It was refused %s, and is tried again.", times(v.Standing.Refused))
	}
	return []why.Cause{c}
}

// jobBackoff is the wait after a failed pod.
func jobBackoff(v *jobView) []why.Cause {
	st := v.Standing
	if st == nil || st.Failures == 0 || v.suspended() || v.ending() != nil || !v.Now.Before(st.Until) {
		return nil
	}
	c := why.Cause{
		Type: "BackOff", Until: why.At(st.Until), Brief: v.backoffBrief(),
		Message: fmt.Sprintf("It waits before it creates the next pod: the wait after failure %d since the last success is %s. It "+
			"begins with %s and doubles each time, up to %s%s.",
			st.Failures, st.Delay, st.Base, st.Cap, v.whoseBackoff()),
		Details: map[string]string{
			"failures": fmt.Sprint(st.Failures), "delay": st.Delay.String(), "base": st.Base.String(), "cap": st.Cap.String(),
		},
	}
	if v.Source == why.FromRecords && v.whoseBackoff() == "" {
		c.Help = []string{
			fmt.Sprintf(
				"jobctl annotate jobs/%s%s %s=1s %s=30s", v.job.Name, why.InNamespace(v.job.Namespace), batch.BackoffBaseAnnotation,
				batch.BackoffCapAnnotation,
			),
		}
	}
	return []why.Cause{c}
}

// backoffBrief says why there is a back-off, by the pod that has failed last.
func (v *jobView) backoffBrief() string {
	brief := fmt.Sprintf("back-off of %s before the next pod", v.Standing.Delay)
	failed := v.failed()
	if len(failed) == 0 {
		return brief
	}
	last := slices.MaxFunc(failed, func(a, b *corev1.Pod) int { return finished(a).Compare(finished(b)) })
	if why := why.Reason((&podView{World: v.World.silent(), pod: last, job: v.job}).causes()); why != "" {
		return why + "; " + brief
	}
	return brief
}

// whoseBackoff says which annotations of the Job set its back-off.
func (v *jobView) whoseBackoff() string {
	var own []string
	for _, name := range []string{batch.BackoffBaseAnnotation, batch.BackoffCapAnnotation} {
		if v.job.Annotations[name] != "" && v.Source == why.FromRecords {
			own = append(own, name)
		}
	}
	if len(own) == 0 {
		return ""
	}
	return " (by its own " + strings.Join(own, " and ") + ")"
}

// jobHeldIndexes are the indexes that wait for a back-off of their own.
func jobHeldIndexes(v *jobView) (all []why.Cause) {
	if v.Standing == nil || v.suspended() || v.ending() != nil {
		return nil
	}
	for i, h := range v.Standing.Held {
		if i == shown {
			all = append(all, why.Cause{Type: "MoreIndexesBackOff", Message: fmt.Sprintf("%d more indexes wait in the same way.", len(v.Standing.Held)-shown)})
			break
		}
		all = append(all, why.Cause{
			Type: "IndexBackOff", Until: why.At(h.Until), Brief: fmt.Sprintf("back-off of index %d after failure %d", h.Index, h.Failures),
			Message: fmt.Sprintf("Index %d waits for its next pod: it has failed %s, and backoffLimitPerIndex allows %s. "+
				"Its wait doubles each time, up to %s.",
				h.Index, strings.TrimSuffix(times(h.Failures), " in a row"), failures(int64(ptr.Deref(v.job.Spec.BackoffLimitPerIndex, 0))), v.Standing.Cap),
			Details: map[string]string{"index": fmt.Sprint(h.Index), "failures": fmt.Sprint(h.Failures), "cap": v.Standing.Cap.String()},
		})
	}
	return all
}

// jobIdle is why a Job that goes on has no pods, where that is no failure of any.
func jobIdle(v *jobView) []why.Cause {
	if batch.State(v.job) != batch.StateWaiting || v.suspended() || v.job.Status.Active > 0 || !job.Managed(v.job) {
		return nil
	}
	switch n := ptr.Deref(v.job.Status.Terminating, 0); {
	case ptr.Deref(v.job.Spec.Parallelism, 1) == 0:
		return []why.Cause{{
			Type: "NoParallelism", Brief: "its parallelism is 0", Message: "Its spec.parallelism is 0, so it has no pods.",
			Help: []string{fmt.Sprintf("jobctl patch jobs/%s%s -p '{\"spec\":{\"parallelism\":1}}'", v.job.Name, why.InNamespace(v.job.Namespace))},
		}}
	case n > 0:
		return []why.Cause{{
			Type: "PodsEnd", Brief: pods(int(n)) + " before have to end first",
			Message: fmt.Sprintf("It creates the next pods once %s before them have ended (podReplacementPolicy %s).", pods(int(n)),
				ptr.Deref(v.job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)),
		}}
	case v.Standing != nil && v.Group == nil && len(jobWindow(v))+len(jobRefused(v))+len(jobBackoff(v))+len(jobHeldIndexes(v)) == 0:
		return []why.Cause{{
			Type: "StartsSoon", Message: "Nothing holds it up: its next pods are about to be created.", Brief: "about to go on",
		}}
	}
	return nil
}

// failuresLeft is how many more failures the Job survives.
func failuresLeft(v *jobView) []why.Cause {
	st := v.Standing
	if st == nil || v.end != nil || v.ending() != nil || st.Failed == 0 && st.Restarts == 0 {
		return nil
	}
	spec := &v.job.Spec
	limit := int64(ptr.Deref(spec.BackoffLimit, 6))
	c := why.Cause{Type: "FailuresLeft", Details: map[string]string{"failed": fmt.Sprint(st.Failed)}}
	if spec.BackoffLimitPerIndex != nil {
		c.Message = "An index that fails has failed for good."
		if n := int64(*spec.BackoffLimitPerIndex); n > 0 {
			c.Message = fmt.Sprintf("An index is tried again after %s, and has failed for good after one more.", failures(n))
		}
		if failed := ptr.Deref(v.job.Status.FailedIndexes, ""); failed != "" {
			c.Details["failedIndexes"] = failed
			c.Message += fmt.Sprintf(" Those that have: %s.", failed)
			if spec.MaxFailedIndexes != nil {
				c.Message += fmt.Sprintf(" More than %d failed indexes (maxFailedIndexes) end the Job.", *spec.MaxFailedIndexes)
			}
		}
		return []why.Cause{c}
	}
	used := st.Failed + st.Restarts
	left := max(0, limit-used)
	c.Details["backoffLimit"], c.Details["left"] = fmt.Sprint(limit), fmt.Sprint(left)
	c.Message = fmt.Sprintf("%s against its backoffLimit of %d: it survives %d more, and the one after that ends it.", counted(used), limit, left)
	return []why.Cause{c}
}

func counted(n int64) string {
	if n == 1 {
		return failures(n) + " counts"
	}
	return failures(n) + " count"
}

// jobDeadline is the deadline that comes.
func jobDeadline(v *jobView) []why.Cause {
	ends, ok := batch.Deadline(v.job)
	if v.end != nil || v.ending() != nil || !ok {
		return nil
	}
	return []why.Cause{{
		Type: "Deadline",
		Message: fmt.Sprintf(
			"Its activeDeadlineSeconds of %s, counted from its start, will end it if it has not finished by then.",
			seconds(v.job.Spec.ActiveDeadlineSeconds),
		),
		Until: why.At(ends),
	}}
}

// jobSuccessRules is how far spec.successPolicy is.
func jobSuccessRules(v *jobView) []why.Cause {
	results := job.JudgeSuccess(v.job)
	if len(results) == 0 {
		return nil
	}
	c := why.Cause{Type: "SuccessPolicy", Message: "The rules of its successPolicy, of which one is enough:"}
	for _, r := range results {
		inner := why.Cause{
			Type: "RuleNotMatched", Message: fmt.Sprintf("Rule %d is not met: %s", r.Index, why.Sentence(r.Reason)),
			Details: map[string]string{"rule": fmt.Sprint(r.Index)},
		}
		switch {
		case r.Matched:
			inner.Type, inner.Message = "RuleMatched", fmt.Sprintf("Rule %d is met: %s", r.Index, why.Sentence(r.Reason))
		case !r.Reached:
			inner.Type, inner.Message = "RuleNotReached", fmt.Sprintf("Rule %d was not looked at, since one before it is met.", r.Index)
		}
		c.Causes = append(c.Causes, inner)
	}
	return []why.Cause{c}
}

// jobTTL is when a finished Job is removed.
func jobTTL(v *jobView) []why.Cause {
	expires, ok := v.TTL.Expires(v.job)
	if !ok {
		return nil
	}
	if ttl, setting := v.TTL.Of(v.job); ttl > 0 {
		return []why.Cause{{
			Type: "TTL", Details: map[string]string{"setting": setting}, Until: why.At(expires),
			Message: fmt.Sprintf("It is removed, with its pods and logs, %s after its end, since it has no ttlSecondsAfterFinished of its own (jobd serve --%s).",
				ttl, setting),
		}}
	}
	return []why.Cause{{
		Type: "TTL",
		Message: fmt.Sprintf(
			"It is removed, with its pods and logs, by its ttlSecondsAfterFinished of %s.",
			time.Duration(*v.job.Spec.TTLSecondsAfterFinished)*time.Second,
		),
		Until: why.At(expires),
	}}
}
