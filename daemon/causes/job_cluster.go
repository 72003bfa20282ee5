package causes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/job"
)

// jobInCluster is spec.managedBy of a cluster, in which a forwarder runs the Job.
func jobInCluster(v *jobView, cluster string) []why.Cause {
	if v.end != nil || v.job.DeletionTimestamp != nil {
		return nil
	}
	c := why.Cause{Type: "InCluster", Details: map[string]string{"cluster": cluster}}
	record := clusters.RecordOf(v.job)
	brief := "goes to the cluster " + cluster
	if record != nil && record.UID != "" {
		brief = "waits in the cluster " + cluster
		c.Message = fmt.Sprintf("It runs in the cluster %s, as %s/%s there.", cluster, record.Namespace, v.job.Name)
	} else {
		c.Message = fmt.Sprintf("It is to run in the cluster %s, and was not made there yet.", cluster)
	}
	if batch.State(v.job) == batch.StateWaiting {
		c.Brief = brief
	}
	switch unreachable, not := v.condition(clusters.Unreachable), v.condition(clusters.NotForwarded); {
	case v.unserved(cluster):
		c.Type, c.Brief = "NoForwarder", "no forwarder for the cluster "+cluster
		c.Message += " " + v.noForwarder(cluster)
	case unreachable != nil:
		c.Type, c.Brief, c.Since = "Unreachable", "cluster "+cluster+" unreachable", why.At(unreachable.LastTransitionTime.Time)
		switch unreachable.Reason {
		case clusters.ReasonOtherCluster:
			c.Brief = "another cluster than that of the Job is reached"
		case clusters.ReasonOtherMachine:
			c.Brief = "another machine's in the cluster " + cluster
		}
		c.Message += " " + why.Sentence(unreachable.Message)
	case not != nil:
		c.Type, c.Brief, c.Since = "NotForwarded", "not taken by the cluster "+cluster, why.At(not.LastTransitionTime.Time)
		c.Message += " " + why.Sentence(not.Message)
	case record == nil && v.Now.Sub(v.job.CreationTimestamp.Time) > untaken:
		c.Brief = "not taken by the forwarder of " + cluster
		c.Message += fmt.Sprintf(" Its forwarder has not taken it: it may be there for other namespaces than %s.", v.job.Namespace)
	}
	return []why.Cause{c}
}

// where says where a Job runs, if that is not here, and that it is not known if it still does.
func (v *jobView) where() string {
	cluster := clusters.Of(v.job)
	switch {
	case cluster == "":
		return ""
	case v.condition(clusters.Unreachable) != nil || v.unserved(cluster):
		return " in the cluster " + cluster + ", by what was heard last"
	}
	return " in the cluster " + cluster
}

// condition returns a condition of the Job that is true; nil if it has none.
func (v *jobView) condition(t batchv1.JobConditionType) *batchv1.JobCondition {
	if c := conditions.Find(v.job.Status.Conditions, t); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

// jobOverflows is a Job that goes to a cluster if it does not start here in time.
func jobOverflows(v *jobView) []why.Cause {
	cluster, start := clusters.OverflowTo(v.job), v.job.Status.StartTime
	if cluster == "" || start == nil || v.end != nil || v.suspended() || batch.State(v.job) != batch.StateWaiting || !job.Managed(v.job) {
		return nil
	}
	after, ok := clusters.OverflowAfter(v.job.Annotations)
	if !ok || batch.ShowsBegun(v.job) {
		return nil
	}
	at := start.Add(after)
	c := why.Cause{
		Type: "Overflows", Until: why.At(at), Details: map[string]string{"cluster": cluster},
		Message: fmt.Sprintf("If none of its pods has started here by %s, it goes to the cluster %s.", at.UTC().Format(time.RFC3339), cluster),
	}
	if v.unserved(cluster) {
		c.Message += " " + v.noForwarder(cluster)
	}
	return []why.Cause{c}
}

// untaken is after how long a forwarder would have taken a Job.
const untaken = 10 * time.Second

// unserved reports whether it is known that no forwarder serves a cluster.
func (v *jobView) unserved(cluster string) bool {
	if v.Forwarder == nil {
		return false
	}
	served, known := v.Forwarder(cluster)
	return known && !served
}

func (v *jobView) noForwarder(cluster string) string {
	return fmt.Sprintf("No forwarder serves that cluster now: jobd forward --cluster %s, or jobd-forward@%[1]s.service, has to run.", cluster)
}

// jobLeavesCluster is the deletion of a Job that a cluster has.
func jobLeavesCluster(v *jobView) []why.Cause {
	cluster := clusters.Of(v.job)
	if cluster == "" || !slices.Contains(v.job.Finalizers, clusters.Finalizer) {
		return nil
	}
	c := why.Cause{
		Type: "LeavesCluster", Since: why.At(v.job.DeletionTimestamp.Time), Details: map[string]string{"cluster": cluster},
		Brief:   "waits to be removed in the cluster " + cluster,
		Message: fmt.Sprintf("It was deleted, and goes once its forwarder has removed it in the cluster %s.", cluster),
	}
	if unreachable := v.condition(clusters.Unreachable); unreachable != nil {
		c.Message += " " + why.Sentence(unreachable.Message)
	}
	if v.unserved(cluster) {
		c.Message += " " + v.noForwarder(cluster)
		c.Help = []string{fmt.Sprintf("jobctl patch jobs/%s%s --type merge -p '{\"metadata\":{\"finalizers\":null}}'  # if that cluster is gone for good",
			v.job.Name, why.InNamespace(v.job.Namespace))}
	}
	return []why.Cause{c}
}

// podInCluster is a pod that shows one of a cluster, which says what it waits for.
func podInCluster(v *podView) []why.Cause {
	cluster := v.pod.Spec.NodeName
	c := why.Cause{
		Type: "InCluster", Details: map[string]string{"cluster": cluster},
		Message: fmt.Sprintf("It shows the pod of this name in the cluster %s: its status and its logs come from there.", cluster),
	}
	if v.pod.Status.Phase != corev1.PodPending || len(v.statuses()) > 0 {
		return []why.Cause{c}
	}
	var last *corev1.Event
	for i := range v.Events {
		e := &v.Events[i]
		if of := e.InvolvedObject.UID == v.pod.UID && e.Reason == "FailedScheduling"; of && (last == nil || last.LastTimestamp.Before(&e.LastTimestamp)) {
			last = e
		}
	}
	if last != nil {
		c.Type, c.Brief, c.Since = "WaitsInCluster", "cluster "+cluster+": "+strings.TrimSuffix(last.Message, "."), why.At(last.LastTimestamp.Time)
		c.Message += " That cluster has no node for it: " + why.Sentence(last.Message)
	}
	return []why.Cause{c}
}
