package simulation

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/job"
)

// tellCounted tells what a pod counts as.
func (s *played) tellCounted(p *simulated, r job.Release) {
	var words string
	switch {
	case r.Outcome == job.Succeeded:
		words = "counts as succeeded"
		s.ran(p)
	case r.Outcome == job.Failed:
		words = "counts as failed"
	case r.Action == batchv1.PodFailurePolicyActionIgnore:
		words = "does not count: a rule of podFailurePolicy ignores it"
	default:
		words = "does not count"
	}
	if s.job.Spec.PodFailurePolicy != nil && p.Status.Phase == corev1.PodFailed {
		for _, rule := range job.JudgeFailure(s.job, p.Pod) {
			if rule.Matched {
				words += fmt.Sprintf(" (rule %d of podFailurePolicy: %s)", rule.Index, rule.Action)
			}
		}
	}
	s.tell("Counted", p, "%s", words)
}

// tellConditions tells which conditions of the Job are new.
func (s *played) tellConditions(next *batchv1.JobStatus) {
	for _, c := range next.Conditions {
		known := false
		for _, old := range s.job.Status.Conditions {
			known = known || old.Type == c.Type && old.Status == c.Status
		}
		if !known && c.Status == corev1.ConditionTrue {
			s.tell("Condition", nil, "the Job is %s: %s: %s", c.Type, c.Reason, c.Message)
		}
	}
}

// moreMemory says how much memory a new pod has after kills for want of it; empty if there were none.
func moreMemory(p *corev1.Pod) string {
	kills := p.Annotations[batch.OOMKillsAnnotation]
	if kills == "" {
		return ""
	}
	var all []string
	for _, c := range p.Spec.Containers {
		if q, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
			all = append(all, fmt.Sprintf("%s of memory%s", q.String(), of(p, c.Name)))
		}
	}
	return fmt.Sprintf(" with %s (OOM kills before it: %s)", strings.Join(all, ", "), kills)
}

// tellBackoff tells until when no pod is created.
func (s *played) tellBackoff() {
	if s.record.Finished() {
		return
	}
	st := s.record.Standing(s.Settings)
	if st.Until.After(s.now) && st.Until.After(s.backoff) {
		s.backoff = st.Until
		s.tell("BackOff", nil, "no new pod before %s: the back-off after failure %d is %s", st.Until.Sub(s.Begin.Truncate(time.Second)), st.Failures, st.Delay)
	}
	for _, h := range st.Held {
		if h.Until.After(s.now) && h.Until.After(s.held[h.Index]) {
			s.held[h.Index] = h.Until
			s.tell("BackOff", nil, "no new pod for index %d before %s: its back-off after failure %d is %s", h.Index,
				h.Until.Sub(s.Begin.Truncate(time.Second)), h.Failures, h.Until.Sub(s.now).Round(time.Second))
		}
	}
}

// Text returns the timeline and the end in lines for people.
func (r *Result) Text() string {
	var b strings.Builder
	for _, e := range r.Timeline {
		who := ""
		switch {
		case e.Pod != "":
			who = "pods/" + e.Pod + " "
		case e.JobSet != "":
			who = "jobsets/" + e.JobSet + " "
		case e.Job != "" && e.What != "Condition":
			who = "jobs/" + e.Job + " "
		}
		message := e.Message
		if e.Job != "" && e.What == "Condition" {
			message = "jobs/" + e.Job + strings.TrimPrefix(message, "the Job")
		}
		fmt.Fprintf(&b, "%10s  %s%s\n", e.At.Round(time.Millisecond), who, message)
	}
	b.WriteString("\n")
	if len(r.Jobs) == 0 && r.JobResult != nil {
		r.JobResult.write(&b)
	}
	for i := range r.Jobs {
		if r.Jobs[i].JobSet == "" { // of a JobSet its groups are told
			r.Jobs[i].write(&b)
		}
	}
	for i := range r.JobSets {
		r.JobSets[i].write(&b)
	}
	return b.String()
}

func (r *JobResult) write(b *strings.Builder) {
	s := &r.Status
	state := "has not ended: " + r.Stuck
	if end := batch.End(s); end != nil {
		state = fmt.Sprintf("is %s after %s (%s)", end.Type, r.Took, end.Reason)
	}
	name := "The Job"
	if r.Name != "" {
		name += " " + r.Name
	}
	fmt.Fprintf(b, "%s %s. Pods created: %d, succeeded: %d, failed: %d.\n", name, state, r.Pods, s.Succeeded, s.Failed)
	if s.CompletedIndexes != "" {
		fmt.Fprintf(b, "Completed indexes: %s\n", s.CompletedIndexes)
	}
	if s.FailedIndexes != nil && *s.FailedIndexes != "" {
		fmt.Fprintf(b, "Failed indexes: %s\n", *s.FailedIndexes)
	}
}
