package causes

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/why"
)

// PartOfSet is the type of the cause that names the JobSet of a Job.
const PartOfSet = "PartOfJobSet"

// setOf is the JobSet that controls a Job, which says when it begins, and ends it.
func setOf(j *batchv1.Job) []why.Cause {
	name, _ := batch.SetOf(j)
	if name == "" {
		return nil
	}
	labels := j.Labels
	c := why.Cause{
		Type: PartOfSet, Object: &why.Reference{Kind: "JobSet", Namespace: j.Namespace, Name: name},
		Message: "controls this Job", Details: map[string]string{"group": labels[jobsetv1.ReplicatedJobNameKey], "index": labels[jobsetv1.JobIndexKey]},
		Help: []string{fmt.Sprintf("jobctl why jobsets/%s%s", name, why.InNamespace(j.Namespace))},
	}
	if group := c.Details["group"]; group != "" {
		c.Message += fmt.Sprintf(", as number %s of its group %s", c.Details["index"], group)
	}
	if attempt := labels[jobset.RestartAttemptKey]; attempt != "" && attempt != "0" {
		c.Details["restarts"] = attempt
		c.Message += ", made when that had begun anew (restart " + attempt + ")"
	}
	c.Message += "."
	return []why.Cause{c}
}

// jobOfSet is the JobSet of the Job.
func jobOfSet(v *jobView) []why.Cause { return setOf(v.job) }

// podOfSet is the JobSet of the pod's Job.
func podOfSet(v *podView) []why.Cause {
	if !v.whole || v.job == nil {
		return nil
	}
	return setOf(v.job)
}
