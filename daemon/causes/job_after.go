package causes

import (
	"fmt"
	"time"

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
	for _, n := range v.Needs {
		if c := v.need(n); c != nil {
			all = append(all, *c)
		}
	}
	if len(all) > 0 && !batch.Paused(v.job.Annotations) {
		v.expected(&all[0])
	}
	return all
}

// need says why a need is not met; nil if it is.
func (v *jobView) need(n hold.Need) *why.Cause {
	in := why.InNamespace(v.job.Namespace)
	c := why.Cause{
		Object:  &why.Reference{Kind: "Job", Namespace: v.job.Namespace, Name: n.Name},
		Details: map[string]string{"when": n.When},
	}
	switch n.Verdict {
	case hold.Met:
		return nil
	case hold.Unknown:
		c.Type, c.Brief = "AwaitsUnknownJob", fmt.Sprintf("there is no Job %s yet", n.Name)
		c.Message = fmt.Sprintf("is not there yet: this Job waits until it is, and for %s.", n.Words())
		if o := n.Outcome; o.Result != "" {
			c.Message += fmt.Sprintf(" One of that name %s at %s, which does not count: that was before this Job was created.",
				hold.Ended(o.Result), o.Ended.UTC().Format(time.RFC3339))
		}
		c.Help = []string{v.resume()}
	case hold.Missed:
		c.Type, c.Brief = "NeedMissed", fmt.Sprintf("Job %s has to %s first, but %s", n.Name, n.Verb(), hold.Ended(n.Outcome.Result))
		c.Message = fmt.Sprintf("%s, and this Job waits for %s.", hold.Ended(n.Outcome.Result), n.Words())
		c.Since = why.At(n.Outcome.Ended)
		if n.When == batch.NeedOK && n.Outcome.Exists {
			c.Message += " Another attempt of it that completes lets this Job start."
			c.Help = append(c.Help, fmt.Sprintf("jobctl retry jobs/%s%s", n.Name, in))
		}
		c.Help = append(c.Help, v.resume())
	default:
		c.Type, c.Brief = "AwaitsJob", fmt.Sprintf("Job %s has to %s first", n.Name, n.Verb())
		c.Message = fmt.Sprintf("has not ended (%s): this Job waits for %s.", n.Outcome.State, n.Words())
		c.Help = []string{fmt.Sprintf("jobctl why jobs/%s%s", n.Name, in)}
	}
	return &c
}

// resume is the command that starts a Job in spite of what it waits for.
func (v *jobView) resume() string {
	return "jobctl resume jobs/" + v.job.Name + why.InNamespace(v.job.Namespace)
}
