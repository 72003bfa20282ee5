// Package jobset is the kind JobSet of the group jobset.x-k8s.io: Jobs that belong together, in groups that wait for each
// other, succeed, fail and are started again as one. The Go types are those of sigs.k8s.io/jobset, and mean what they mean in
// its version 0.12.0. What is behind feature gates there is refused by name.
//
// It is a pure package: descriptions of the kind, and the Jobs that a JobSet is made of.
package jobset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
)

// Labels and annotations of the Jobs and pods of a JobSet that its API package does not name.
const (
	// RestartAttemptKey says in which attempt of the JobSet a Job was made, from 0.
	RestartAttemptKey = "jobset.sigs.k8s.io/restart-attempt"
)

// Of returns the name and the UID of the JobSet that controls a Job (batch.SetOf).
func Of(job metav1.Object) (name string, uid types.UID) { return batch.SetOf(job) }

// JobName returns the name of a Job of a JobSet.
func JobName(set, group string, index int) string { return fmt.Sprintf("%s-%s-%d", set, group, index) }

// IndexOf returns the index of a Job of a group, by its name; false if it has none of that group's.
func IndexOf(set, group, name string) (index int, ok bool) {
	text, ok := strings.CutPrefix(name, set+"-"+group+"-")
	index, err := strconv.Atoi(text)
	return index, ok && err == nil && JobName(set, group, index) == name
}

// Subdomain returns the name of the Service of a JobSet, the second part of the names of its pods. By default that is the JobSet's
// name, which is not there yet when defaults are set.
func Subdomain(js *jobsetv1.JobSet) string {
	if js.Spec.Network != nil && js.Spec.Network.Subdomain != "" {
		return js.Spec.Network.Subdomain
	}
	return js.Name
}

// HostNames reports whether the pods of a JobSet find each other by name.
func HostNames(js *jobsetv1.JobSet) bool {
	return js.Spec.Network != nil && ptr.Deref(js.Spec.Network.EnableDNSHostnames, false)
}

// Coordinator returns the name of the pod that coordinates the others: SET-GROUP-INDEX-PODINDEX.SUBDOMAIN. There has to be one.
func Coordinator(js *jobsetv1.JobSet) string {
	c := js.Spec.Coordinator
	return fmt.Sprintf("%s-%d.%s", JobName(js.Name, c.ReplicatedJob, c.JobIndex), c.PodIndex, Subdomain(js))
}

// ClaimName returns the name of a claim that a JobSet makes of a template.
func ClaimName(set, template string) string { return template + "-" + set }

// Managed reports whether it is jobd that acts for a JobSet, and no other controller (JobSetSpec.ManagedBy).
func Managed(js *jobsetv1.JobSet) bool {
	return js.Spec.ManagedBy == nil || *js.Spec.ManagedBy == jobsetv1.JobSetControllerName
}

// Suspended reports whether a JobSet is to have no pods.
func Suspended(js *jobsetv1.JobSet) bool { return ptr.Deref(js.Spec.Suspend, false) }

// Paused returns since when a JobSet is to be paused, as its Jobs then say of themselves (batch.PausedAnnotation); false if it is not.
func Paused(js *jobsetv1.JobSet) (since string, paused bool) {
	since, paused = js.Annotations[batch.PausedAnnotation]
	return since, paused
}

// InOrder reports whether each group waits until the one before it has started.
func InOrder(js *jobsetv1.JobSet) bool {
	return js.Spec.StartupPolicy != nil && js.Spec.StartupPolicy.StartupPolicyOrder == jobsetv1.InOrder
}

// End returns the condition with which a JobSet has finished, Completed or Failed; nil while it has not.
func End(status *jobsetv1.JobSetStatus) *metav1.Condition {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		ends := c.Type == string(jobsetv1.JobSetCompleted) || c.Type == string(jobsetv1.JobSetFailed)
		if ends && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	return nil
}

// Result returns how a JobSet has finished, in the words for Jobs; empty while it has not.
func Result(status *jobsetv1.JobSetStatus) batchv1.JobConditionType {
	switch end := End(status); {
	case end == nil:
		return ""
	case end.Type == string(jobsetv1.JobSetCompleted):
		return batchv1.JobComplete
	}
	return batchv1.JobFailed
}

// StateRestarting is that of a JobSet that has begun anew, and of which not all Jobs are ready again.
const StateRestarting = "Restarting"

// State says in a word how a JobSet is, in those that Jobs have (batch.State), by what its status counts.
func State(js *jobsetv1.JobSet) string {
	return StateOf(js, slices.ContainsFunc(js.Status.ReplicatedJobsStatus, func(s jobsetv1.ReplicatedJobStatus) bool {
		return s.Ready > 0 || s.Active > 0 || s.Succeeded > 0
	}))
}

// StateOf is State where it is known whether Jobs of it run.
func StateOf(js *jobsetv1.JobSet, run bool) string {
	_, paused := Paused(js)
	end := End(&js.Status)
	switch {
	case js.DeletionTimestamp != nil:
		return batch.StateTerminating
	case end != nil && end.Type == string(jobsetv1.JobSetCompleted):
		return batch.StateComplete
	case end != nil:
		return batch.StateFailed
	case Awaits(js):
		return batch.StateWaiting
	case Suspended(js):
		return batch.StateSuspended
	case paused && Managed(js):
		return batch.StatePaused
	case meta.IsStatusConditionTrue(js.Status.Conditions, string(jobsetv1.JobSetRestarting)):
		return StateRestarting
	case run:
		return batch.StateRunning
	}
	return batch.StateWaiting
}

// FirstFailed returns the name of the Job whose failure has decided about a JobSet last, as its conditions have it; empty if none has.
func FirstFailed(status *jobsetv1.JobSetStatus) string {
	for _, t := range []jobsetv1.JobSetConditionType{jobsetv1.JobSetFailed, jobsetv1.JobSetRestarting} {
		for _, c := range status.Conditions {
			if c.Type != string(t) || c.Status != metav1.ConditionTrue {
				continue
			}
			if _, name, found := strings.Cut(c.Message, "(first failed job: "); found {
				return strings.TrimSuffix(name, ")")
			}
		}
	}
	return ""
}

// Jobs returns how many Jobs a JobSet has.
func Jobs(js *jobsetv1.JobSet) (n int64) {
	for i := range js.Spec.ReplicatedJobs {
		n += int64(max(0, js.Spec.ReplicatedJobs[i].Replicas))
	}
	return n
}

// Find returns a group of a JobSet, nil if there is none of that name.
func Find(js *jobsetv1.JobSet, name string) *jobsetv1.ReplicatedJob {
	for i := range js.Spec.ReplicatedJobs {
		if js.Spec.ReplicatedJobs[i].Name == name {
			return &js.Spec.ReplicatedJobs[i]
		}
	}
	return nil
}
