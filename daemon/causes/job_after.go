package causes

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/hold"
)

// awaits reports whether the Job is resumed by jobd: once others have ended, or at a time. A cluster does not do that.
func (v *jobView) awaits() bool { return v.Source == why.FromRecords && batch.Awaits(v.job) }

// jobAfter is what other Jobs have to do before this one is resumed.
func jobAfter(v *jobView) (all []why.Cause) {
	if !v.awaits() {
		return nil
	}
	if all = NeedsOf(v.Needs, "Job", v.job, v.resume()); len(all) > 0 && !batch.Paused(v.job.Annotations) {
		v.expected(&all[0])
	}
	return all
}

// NeedsOf returns what others have to do before a Job or a JobSet, of a kind, is resumed. resume is the command that starts it all the same.
func NeedsOf(needs []hold.Need, kind string, of metav1.Object, resume string) (all []why.Cause) {
	for _, n := range needs {
		if n.Verdict != hold.Met {
			all = append(all, toDo(n, kind, of.GetNamespace(), resume))
		}
	}
	return all
}

// toDo says why a need is not met of a Job or a JobSet, of a kind.
func toDo(n hold.Need, kind, namespace, resume string) why.Cause {
	in := why.InNamespace(namespace)
	other := why.Reference{Kind: n.Kind(), Namespace: namespace, Name: n.Name}
	c := why.Cause{Object: &other, Details: map[string]string{"when": n.When}}
	what := n.Kind() + " " + n.Name
	switch n.Verdict {
	case hold.Unknown:
		c.Type, c.Brief = "AwaitsUnknownJob", fmt.Sprintf("there is no %s yet", what)
		c.Message = fmt.Sprintf("is not there yet: this %s waits until it is, and for %s.", kind, n.Words())
		if o := n.Outcome; o.Result != "" {
			c.Message += fmt.Sprintf(" One of that name %s at %s, which does not count: that was before this %s was created.",
				hold.Ended(o.Result), o.Ended.UTC().Format(time.RFC3339), kind)
		}
		c.Help = []string{resume}
	case hold.Missed:
		c.Type, c.Brief = "NeedMissed", fmt.Sprintf("%s has to %s first, but %s", what, n.Verb(), hold.Ended(n.Outcome.Result))
		c.Message = fmt.Sprintf("%s, and this %s waits for %s.", hold.Ended(n.Outcome.Result), kind, n.Words())
		c.Since = why.At(n.Outcome.Ended)
		switch {
		case n.When != batch.NeedOK || !n.Outcome.Exists:
		case n.Set:
			c.Message += fmt.Sprintf(" One of that name that is created anew, and completes, lets this %s start.", kind)
			c.Help = append(c.Help, "jobctl submit --replace -f FILE")
		default:
			c.Message += fmt.Sprintf(" Another attempt of it that completes lets this %s start.", kind)
			c.Help = append(c.Help, fmt.Sprintf("jobctl retry jobs/%s%s", n.Name, in))
		}
		c.Help = append(c.Help, resume)
	default:
		c.Type, c.Brief = "AwaitsJob", fmt.Sprintf("%s has to %s first", what, n.Verb())
		c.Message = fmt.Sprintf("has not ended (%s): this %s waits for %s.", n.Outcome.State, kind, n.Words())
		c.Help = []string{fmt.Sprintf("jobctl why %s%s", other.String(), in)}
	}
	return c
}

// resume is the command that starts a Job in spite of what it waits for.
func (v *jobView) resume() string {
	return "jobctl resume jobs/" + v.job.Name + why.InNamespace(v.job.Namespace)
}
