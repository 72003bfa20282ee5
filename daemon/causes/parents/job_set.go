package parents

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
)

// jobSetView is a JobSet with its Jobs in its world.
type jobSetView struct {
	causes.World
	set *jobsetv1.JobSet
	// jobs are those that it controls, or some of them.
	jobs []*batchv1.Job
	// told explains the Job that matters most (JobOfSet); nil if there is none.
	told   *why.Explanation
	end    *metav1.Condition // nil: it goes on
	counts map[string]jobsetv1.ReplicatedJobStatus
}

// A jobSetCause returns the reasons of one kind for the state of a JobSet; none if they do not apply.
type jobSetCause func(*jobSetView) []why.Cause

// jobSetCauses are in the order in which they are told.
var jobSetCauses = []jobSetCause{
	jobSetTerminating,
	jobSetElsewhere,
	jobSetEnd,
	jobSetAfter,
	jobSetSuspended,
	jobSetPaused,
	jobSetRefused,
	jobSetFormer,
	jobSetDelayed,
	jobSetTold,
	jobSetGang,
	jobSetGroups,
	jobSetRestarts,
	jobSetSuccess,
	jobSetTTL,
}

// shown is how many names are told of a list.
const shown = 5

// mostGroups is how many groups of a JobSet are told of that have not ended.
const mostGroups = 10

// JobSet explains a JobSet. jobs are those that it controls, or some of them; told explains that of JobOfSet, nil for none.
func JobSet(w causes.World, js *jobsetv1.JobSet, jobs []*batchv1.Job, told *why.Explanation) *why.Explanation {
	v := &jobSetView{World: w, set: js, jobs: jobs, told: told, end: jobset.End(&js.Status), counts: map[string]jobsetv1.ReplicatedJobStatus{}}
	for _, s := range js.Status.ReplicatedJobsStatus {
		v.counts[s.Name] = s
	}
	all := causes.Gather(jobSetCauses, v)
	state, message := v.state(why.Reason(all))
	return w.Explain("JobSet", js, state, message, all)
}

// JobOfSet returns the Job that says most about the state of a JobSet: the one that made it fail or, if it has not failed, the
// first that waits though nobody has suspended it; nil for none.
func JobOfSet(js *jobsetv1.JobSet, jobs []*batchv1.Job) *batchv1.Job {
	if end := jobset.End(&js.Status); end != nil {
		first := jobset.FirstFailed(&js.Status)
		for _, j := range jobs {
			if end.Type == string(jobsetv1.JobSetFailed) && j.Name == first {
				return j
			}
		}
		return nil
	}
	for _, j := range jobs {
		if state := batch.State(j); attemptIn(js, j) && (state == batch.StateWaiting || state == batch.StatePreempted) && !jobset.Suspended(js) {
			return j
		}
	}
	return nil
}

// attemptIn reports whether a Job is of the attempt in which a JobSet is.
func attemptIn(js *jobsetv1.JobSet, j *batchv1.Job) bool {
	return j.Labels[jobset.RestartAttemptKey] == fmt.Sprint(js.Status.Restarts)
}

func (v *jobSetView) state(reason string) (state, message string) {
	if reason != "" {
		reason = ": " + why.Sentence(reason)
	} else {
		reason = "."
	}
	runs := slices.ContainsFunc(v.jobs, func(j *batchv1.Job) bool { return attemptIn(v.set, j) && batch.State(j) == batch.StateRunning })
	for _, s := range v.counts {
		runs = runs || s.Ready > 0 || s.Active > 0 && v.told == nil
	}
	switch state := jobset.StateOf(v.set, runs); state {
	case batch.StateTerminating:
		return state, "is being deleted."
	case batch.StateComplete:
		return state, "is complete: " + v.progress()
	case batch.StateFailed:
		return state, "has failed (" + v.end.Reason + ")" + reason
	case batch.StateSuspended:
		return state, "is suspended."
	case batch.StatePaused:
		return state, "is paused. So far " + v.progress()
	case jobset.StateRestarting:
		return state, fmt.Sprintf("begins its attempt %d%s", v.set.Status.Restarts+1, reason)
	case batch.StateRunning:
		return state, "runs: " + v.progress()
	}
	switch {
	case v.awaits():
		return batch.StateWaiting, "waits" + reason
	case jobset.Awaits(v.set): // in a cluster, which does not resume it
		return batch.StateSuspended, "is suspended."
	}
	return batch.StateWaiting, "waits" + reason + " So far " + v.progress()
}

func (v *jobSetView) progress() string {
	succeeded, failed := int32(0), int32(0)
	for _, s := range v.counts {
		succeeded, failed = succeeded+s.Succeeded, failed+s.Failed
	}
	said := fmt.Sprintf("%d of %s succeeded", succeeded, jobs(jobset.Jobs(v.set)))
	if failed > 0 {
		said += fmt.Sprintf(", %d failed", failed)
	}
	return said + "."
}

func jobs(n int64) string {
	if n == 1 {
		return "1 Job"
	}
	return fmt.Sprintf("%d Jobs", n)
}

func (v *jobSetView) command(verb string) string {
	return fmt.Sprintf("jobctl %s jobsets/%s%s", verb, v.set.Name, why.InNamespace(v.set.Namespace))
}

// jobSetTerminating is the deletion of a JobSet.
func jobSetTerminating(v *jobSetView) []why.Cause {
	return deletion(&v.World, v.set)
}

// jobSetElsewhere is spec.managedBy.
func jobSetElsewhere(v *jobSetView) []why.Cause {
	if jobset.Managed(v.set) {
		return nil
	}
	return []why.Cause{{
		Type: "ManagedElsewhere", Brief: "managed by " + *v.set.Spec.ManagedBy + ", not here",
		Message: fmt.Sprintf("Its spec.managedBy names the controller %s, so nothing here makes its Jobs.", *v.set.Spec.ManagedBy),
	}}
}

// jobSetEnd is why a JobSet has finished.
func jobSetEnd(v *jobSetView) []why.Cause {
	if v.end == nil {
		return nil
	}
	c := why.Cause{
		Type: v.end.Reason, Message: why.Sentence(v.end.Message), Since: why.At(v.end.LastTransitionTime.Time),
		Details: map[string]string{"reason": v.end.Reason, "restarts": fmt.Sprint(v.set.Status.Restarts)},
	}
	if v.end.Type == string(jobsetv1.JobSetCompleted) {
		return []why.Cause{c}
	}
	first := jobset.FirstFailed(&v.set.Status)
	c.Details["job"] = first
	switch policy := v.set.Spec.FailurePolicy; v.end.Reason {
	case "FailedJobs":
		c.Message = fmt.Sprintf("Its Job %s failed, and it has no failurePolicy that would begin it anew.", first)
	case "ReachedMaxRestarts":
		if policy != nil {
			c.Message = fmt.Sprintf("Its Job %s failed, and its maxRestarts of %d allows no more attempts: it has begun anew %s.", first, policy.MaxRestarts,
				timesIn(v.set.Status.Restarts))
		}
	case "FailJobSetFailurePolicyAction":
		c.Message = fmt.Sprintf("Its Job %s failed, and a rule of its failurePolicy ends it then (FailJobSet).", first)
	}
	c.Brief = fmt.Sprintf("Job %s failed", first)
	if v.told != nil {
		if v.told.Reason != "" {
			c.Brief += ": " + v.told.Reason
		}
		c.Causes = v.inner()
	}
	if v.Source == why.FromRecords {
		c.Help = append(c.Help, "jobctl submit --replace -f FILE")
	}
	return []why.Cause{c}
}

func timesIn(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// inner is what is told of one Job.
func (v *jobSetView) inner() []why.Cause {
	of := v.told.Object
	return []why.Cause{{
		Type: "JobOfSet", Object: &of, Message: v.told.Message,
		Causes: slices.DeleteFunc(slices.Clone(v.told.Causes), func(c why.Cause) bool { return c.Type == causes.PartOfSet }),
		Help:   []string{fmt.Sprintf("jobctl why jobs/%s%s", of.Name, why.InNamespace(of.Namespace))},
	}}
}

// jobSetSuspended is spec.suspend.
func jobSetSuspended(v *jobSetView) []why.Cause {
	if !jobset.Suspended(v.set) || v.end != nil || v.awaits() {
		return nil
	}
	c := why.Cause{Type: "Suspended", Message: "Its spec.suspend is true, so its Jobs have no pods.", Brief: "suspended", Details: map[string]string{}}
	if name, when := why.Manager(v.set, "spec", "suspend"); name != "" {
		c.Message = fmt.Sprintf("%s has set its spec.suspend to true, so its Jobs have no pods.", name)
		c.Brief, c.Details["manager"], c.Since = "suspended by "+name, name, why.At(when)
	}
	if v.set.Labels[batch.KueueLabel] != "" && v.Source == why.FromRecords {
		c.Message += " Its label " + batch.KueueLabel + " has no effect here: there is no Kueue that would resume it."
	}
	if jobset.Awaits(v.set) {
		c.Message += fmt.Sprintf(" Its annotation %s has no effect here: this is no jobd, which would resume it.", batch.AfterAnnotation)
	}
	c.Help = []string{v.command("resume")}
	return []why.Cause{c}
}

// awaits reports whether jobd resumes the JobSet once others have ended. A cluster does not do that.
func (v *jobSetView) awaits() bool { return v.Source == why.FromRecords && jobset.Awaits(v.set) }

// jobSetAfter is what others have to do before the JobSet is resumed.
func jobSetAfter(v *jobSetView) []why.Cause {
	if !v.awaits() {
		return nil
	}
	return causes.NeedsOf(v.Needs, "JobSet", v.set, v.command("resume"))
}

// jobSetPaused is batch.PausedAnnotation.
func jobSetPaused(v *jobSetView) []why.Cause {
	since, paused := jobset.Paused(v.set)
	if !paused || !v.goesOn() || v.Source != why.FromRecords {
		return nil
	}
	c := why.Cause{
		Type: "Paused", Brief: "paused", Help: []string{v.command("continue")},
		Message: fmt.Sprintf("It is paused (%s), so the containers of its pods are frozen, and its Jobs get no new pods.", batch.PausedAnnotation),
	}
	if at, err := time.Parse(time.RFC3339Nano, since); err == nil {
		c.Since = why.At(at)
	}
	return []why.Cause{c}
}

// goesOn reports whether Jobs of the JobSet are to run.
func (v *jobSetView) goesOn() bool {
	return v.end == nil && v.set.DeletionTimestamp == nil && jobset.Managed(v.set) && !jobset.Suspended(v.set)
}

// jobSetRefused is what of the JobSet could not be created.
func jobSetRefused(v *jobSetView) []why.Cause {
	if v.end != nil || v.set.DeletionTimestamp != nil {
		return nil
	}
	e := v.LastEvent(v.set.UID, "JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed")
	if e == nil {
		return nil
	}
	for _, j := range v.jobs { // what was created since then is refused no more
		if attemptIn(v.set, j) && j.CreationTimestamp.After(core.LastSeen(e)) {
			return nil
		}
	}
	if int64(len(v.jobs)) >= jobset.Jobs(v.set) {
		return nil
	}
	return []why.Cause{{
		Type: e.Reason, Since: why.At(core.LastSeen(e)), Brief: why.Clause(e.Message),
		Message: "What it needs cannot be created, and is tried again: " + why.Sentence(e.Message),
	}}
}

// jobSetFormer are the Jobs of the attempt before, whose names the next ones are to have.
func jobSetFormer(v *jobSetView) []why.Cause {
	if !v.goesOn() {
		return nil
	}
	var former []string
	for _, j := range v.jobs {
		if !attemptIn(v.set, j) {
			former = append(former, j.Name)
		}
	}
	if len(former) == 0 {
		return nil
	}
	slices.Sort(former)
	c := why.Cause{
		Type: "FormerJobsEnd", Brief: fmt.Sprintf("%s of the attempt before have to be gone first", jobs(int64(len(former)))),
		Message: "The Jobs of the attempt before end with their pods, and each is made again once it is gone: ",
		Details: map[string]string{"jobs": fmt.Sprint(len(former))},
	}
	if policy := v.set.Spec.FailurePolicy; policy != nil && policy.RestartStrategy == jobsetv1.BlockingRecreate {
		c.Message = "The Jobs of the attempt before end with their pods, and none is made again until all are gone (BlockingRecreate): "
	}
	c.Message += listed(former) + "."
	return []why.Cause{c}
}

// jobSetDelayed is the attempt that waits, since those before have failed soon.
func jobSetDelayed(v *jobSetView) []why.Cause {
	if !v.goesOn() {
		return nil
	}
	var began time.Time
	failed := ""
	for _, j := range v.jobs {
		if !attemptIn(v.set, j) {
			continue
		}
		if at := j.CreationTimestamp.Time; began.IsZero() || at.Before(began) {
			began = at
		}
		if end := batch.End(&j.Status); end != nil && end.Type == batchv1.JobFailed && (failed == "" || j.Name < failed) {
			failed = j.Name
		}
	}
	next := jobset.NextAttempt(v.set.Status.Restarts, began)
	if failed == "" || !next.After(v.Now) {
		return nil
	}
	when := next.UTC().Format(time.RFC3339)
	return []why.Cause{{
		Type: "RestartDelayed", Brief: "begins anew at " + when, Details: map[string]string{"at": when, "job": failed},
		Message: fmt.Sprintf("Job %s of attempt %d has failed, and the next attempt begins at %s: attempts that fail soon follow each other ever later.",
			failed, v.set.Status.Restarts+1, when),
	}}
}

// listed names the first few.
func listed(names []string) string {
	if n := len(names) - shown; n > 0 {
		return strings.Join(names[:shown], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}

// jobSetTold is the Job of a JobSet that waits.
func jobSetTold(v *jobSetView) []why.Cause {
	if !v.goesOn() || v.told == nil {
		return nil
	}
	all := v.inner()
	if v.told.Reason != "" {
		all[0].Brief = fmt.Sprintf("Job %s waits: %s", v.told.Object.Name, v.told.Reason)
	}
	return all
}

// jobSetGang are the pods that start together, of a JobSet of which none does yet.
func jobSetGang(v *jobSetView) []why.Cause {
	if !v.goesOn() || !jobset.Gang(v.set) {
		return nil
	}
	for _, s := range v.counts {
		if s.Ready+s.Succeeded+s.Failed > 0 {
			return nil
		}
	}
	together, _ := jobset.GangGroups(v.set)
	n := jobset.GangPods(v.set)
	return []why.Cause{{
		Type: "Gang", Details: map[string]string{"pods": fmt.Sprint(n)},
		Message: fmt.Sprintf("Its %d pods of %s start together or wait together (%s).", n, listed(together), jobset.GangAnnotation),
	}}
}

// jobSetGroups are the groups that wait for others.
func jobSetGroups(v *jobSetView) (all []why.Cause) {
	if !v.goesOn() {
		return nil
	}
	begun := map[string]bool{}
	for _, j := range v.jobs {
		if attemptIn(v.set, j) && !ptr.Deref(j.Spec.Suspend, false) { // InOrder resumes one group after the other
			begun[j.Labels[jobsetv1.ReplicatedJobNameKey]] = true
		}
	}
	waiting, on := 0, jobset.Dependencies(v.set)
	for i := range v.set.Spec.ReplicatedJobs {
		g := &v.set.Spec.ReplicatedJobs[i]
		if begun[g.Name] {
			continue
		}
		inner := awaited(g.Name, on[i])
		if len(inner) == 0 {
			continue
		}
		if waiting++; waiting > mostGroups {
			continue
		}
		all = append(all, inner...)
	}
	if more := waiting - mostGroups; more > 0 {
		all = append(all, why.Cause{Type: "MoreGroupsWait", Message: fmt.Sprintf("%d more groups wait in the same way.", more)})
	}
	return all
}

// awaited is what a group waits for.
func awaited(group string, on []jobset.Dependency) (all []why.Cause) {
	for _, d := range on {
		if d.Met() {
			continue
		}
		all = append(all, why.Cause{
			Type: "AwaitsReplicatedJob", Brief: fmt.Sprintf("group %s waits until %s is %s", group, d.On, d.What()),
			Message: fmt.Sprintf("The group %s waits %s", group, d.Words()),
			Details: map[string]string{"group": group, "awaits": d.On, "status": d.What(), "has": fmt.Sprint(d.Has), "of": fmt.Sprint(max(0, d.Of))},
		})
	}
	return all
}

// jobSetRestarts are the attempts before.
func jobSetRestarts(v *jobSetView) []why.Cause {
	n := v.set.Status.Restarts
	if n == 0 {
		return nil
	}
	c := why.Cause{
		Type: "Restarted", Message: fmt.Sprintf("This is attempt %d.", n+1),
		Details: map[string]string{"restarts": fmt.Sprint(n), "restartsCountTowardsMax": fmt.Sprint(v.set.Status.RestartsCountTowardsMax)},
	}
	if policy := v.set.Spec.FailurePolicy; policy != nil && v.end == nil {
		left := max(0, policy.MaxRestarts-v.set.Status.RestartsCountTowardsMax)
		c.Message += fmt.Sprintf(" It may begin anew %s (maxRestarts %d).", more(left), policy.MaxRestarts)
	}
	if e := v.LastEvent(v.set.UID, "RestartJobSetFailurePolicyAction", "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction"); e != nil {
		c.Since = why.At(core.LastSeen(e))
		c.Message += " It has begun since a Job failed: " + why.Sentence(e.Message)
	}
	return []why.Cause{c}
}

func more(n int32) string {
	switch n {
	case 0:
		return "no more"
	case 1:
		return "once more"
	}
	return fmt.Sprintf("%d times more", n)
}

// jobSetSuccess is what has to succeed, if that is not all.
func jobSetSuccess(v *jobSetView) []why.Cause {
	p := v.set.Spec.SuccessPolicy
	if p == nil || v.end != nil || p.Operator == jobsetv1.OperatorAll && len(p.TargetReplicatedJobs) == 0 {
		return nil
	}
	targets := p.TargetReplicatedJobs
	if len(targets) == 0 {
		targets = slices.Sorted(maps.Keys(v.counts))
	}
	has, of := int32(0), int32(0)
	for _, name := range targets {
		has += v.counts[name].Succeeded
		if g := jobset.Find(v.set, name); g != nil {
			of += g.Replicas
		}
	}
	c := why.Cause{Type: "SuccessPolicy", Details: map[string]string{"succeeded": fmt.Sprint(has), "of": fmt.Sprint(of)}}
	c.Message = fmt.Sprintf("It is complete, and what still runs is ended, once all Jobs of %s have succeeded: %d of %d have.", listed(targets), has, of)
	if p.Operator == jobsetv1.OperatorAny {
		c.Message = fmt.Sprintf("It is complete, and what still runs is ended, once one Job of %s has succeeded.", listed(targets))
	}
	return []why.Cause{c}
}

// jobSetTTL is when a finished JobSet is removed.
func jobSetTTL(v *jobSetView) []why.Cause {
	ttl := v.set.Spec.TTLSecondsAfterFinished
	if v.end == nil || ttl == nil {
		return nil
	}
	after := time.Duration(*ttl) * time.Second
	return []why.Cause{{
		Type: "TTL", Message: fmt.Sprintf("It is removed, with its Jobs and their logs, by its ttlSecondsAfterFinished of %s.", after),
		Until: why.At(v.end.LastTransitionTime.Add(after)),
	}}
}
