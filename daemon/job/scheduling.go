package job

import (
	"fmt"
	"hash/fnv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder"

	"github.com/jobd/jobd/api/batch"
)

// IsGang reports whether a Job's pods get a Workload and a PodGroup (JobSpec.Scheduling), or would if they were created
// now.
func IsGang(job *batchv1.Job, s Settings) bool { return batch.IsGang(&job.Spec, s.WorkloadWithJob) }

// NewWorkload makes the Workload of a Job.
func NewWorkload(job *batchv1.Job) (*schedulingv1beta1.Workload, error) {
	owner := controllerReference(job)
	const suffix = "-pgt-0"
	template := strings.ReplaceAll(job.Name, ".", "-")
	template = template[:min(len(template), utilvalidation.DNS1123LabelMaxLength-len(suffix))]
	template = strings.TrimRight(template, "-") + suffix
	return workloadbuilder.NewBuilder(batch.WorkloadItem(template, &job.Spec, nil), workloadbuilder.BuildOptions{
		Name: cut(job.Name, "-"+hash(string(job.UID))), Namespace: job.Namespace, Owner: &owner,
	}).BuildWorkload()
}

// NewPodGroup makes the PodGroup of a Job from the only template of its Workload, which a client may have created.
func NewPodGroup(job *batchv1.Job, w *schedulingv1beta1.Workload) (*schedulingv1beta1.PodGroup, error) {
	if n := len(w.Spec.PodGroupTemplates); n != 1 {
		return nil, fmt.Errorf("workload %q has %d podGroupTemplates, not one", w.Name, n)
	}
	owner, template := controllerReference(job), w.Spec.PodGroupTemplates[0].Name
	g, err := workloadbuilder.NewBuilderFromExistingWorkload(w, workloadbuilder.BuildOptions{Owner: &owner}).
		NewPodGroup(cut(w.Name+"-"+template, "-"+hash(w.Name+template)), template)
	if err != nil {
		return nil, err
	}
	g.OwnerReferences = append(g.OwnerReferences, metav1.OwnerReference{
		APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "Workload", Name: w.Name, UID: w.UID,
	})
	return g, nil
}

// MinCount returns how many pods of a Job have to start together, 0 if it is not a gang.
func MinCount(job *batchv1.Job) int32 {
	w, err := NewWorkload(job)
	if err != nil || w.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang == nil {
		return 0
	}
	return w.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang.MinCount
}

// Join makes a new pod a member of a PodGroup.
func Join(pod *corev1.Pod, g *schedulingv1beta1.PodGroup) {
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.Name}
	pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{
		APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup", Name: g.Name, UID: g.UID,
	})
}

// Started reports whether the Job has, or has had, pods. If it has, it does not become a gang by default any more.
func (r *Record) Started() bool {
	return r.pods.len() > 0 || r.status.Succeeded+r.status.Failed > 0
}

// AtOnce returns how many pods the Job will have at a time from now on: towards its end a gang has fewer than it began
// with.
func (r *Record) AtOnce() int {
	s := &r.spec
	switch {
	case s.indexed:
		return int(max(0, min(s.parallelism, s.completions-int32(r.completed.Len()+r.failedSet.Len()))))
	case s.completions >= 0:
		return int(max(0, min(s.parallelism, s.completions-r.status.Succeeded-r.succeeded)))
	case r.status.Succeeded+r.succeeded > 0:
		return int(r.active)
	}
	return int(s.parallelism)
}

// Lacks returns how many pods more there have to be for a gang of that many to start.
func (r *Record) Lacks(gang int) int { return min(gang, r.AtOnce()) - int(r.active) }

// WorkloadCreated returns the event of a Workload that was created for a Job.
func WorkloadCreated(job, workload string) Event {
	return Event{
		corev1.EventTypeNormal, "WorkloadCreated", fmt.Sprintf("Created Workload %s for Job %s", workload, job),
	}
}

// PodGroupCreated returns the event of a PodGroup that was created for a Job.
func PodGroupCreated(job, group string) Event {
	return Event{corev1.EventTypeNormal, "PodGroupCreated", fmt.Sprintf("Created PodGroup %s for Job %s", group, job)}
}

// WorkloadUnused returns the event of a Job whose pods are scheduled one by one, since it is not clear which of the
// Workloads and PodGroups that clients have created they belong to.
func WorkloadUnused(why string) Event {
	return Event{corev1.EventTypeWarning, "WorkloadUnused", "Pods are scheduled one by one: " + why}
}

func hash(of string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(of)) // never fails
	return utilrand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// cut appends a suffix to a name, which is shortened so that both fit.
func cut(name, suffix string) string {
	return strings.TrimRight(name[:min(len(name), utilvalidation.DNS1123SubdomainMaxLength-len(suffix))], "-.") + suffix
}
