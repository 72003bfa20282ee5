package jobset

import (
	"fmt"
	"math"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// GangAnnotation says "true" if the pods of all groups of a JobSet that begin with it start together or wait together, in each attempt
// anew. Groups that wait for others (dependsOn, startupPolicy) are no part of that. A cluster starts pods one by one.
const GangAnnotation = "jobd.dev/gang"

// Gang reports whether pods of a JobSet start together.
func Gang(js *jobsetv1.JobSet) bool { return js.Annotations[GangAnnotation] == "true" }

// InGang reports whether a group is one of those whose pods start together.
func InGang(js *jobsetv1.JobSet, group *jobsetv1.ReplicatedJob) bool {
	return Gang(js) && len(group.DependsOn) == 0 && (!InOrder(js) || group.Name == js.Spec.ReplicatedJobs[0].Name)
}

// GangName is the name of the PodGroup of a JobSet in an attempt.
func GangName(js *jobsetv1.JobSet, attempt int32) string {
	return fmt.Sprintf("%s-gang-%d", js.Name, attempt)
}

// AtOnce returns how many pods of a Job there are at first.
func AtOnce(spec *batchv1.JobSpec) int64 {
	n := ptr.Deref(spec.Parallelism, 1)
	if spec.Completions != nil {
		n = min(n, *spec.Completions)
	}
	return int64(n)
}

// GangPods returns how many pods of a JobSet start together.
func GangPods(js *jobsetv1.JobSet) (n int64) {
	for i := range js.Spec.ReplicatedJobs {
		if group := &js.Spec.ReplicatedJobs[i]; InGang(js, group) {
			n += int64(group.Replicas) * AtOnce(&group.Template.Spec)
		}
	}
	return n
}

// GangGroups returns the names of the groups whose pods start together, and those of the others.
func GangGroups(js *jobsetv1.JobSet) (together, others []string) {
	for i := range js.Spec.ReplicatedJobs {
		if group := &js.Spec.ReplicatedJobs[i]; InGang(js, group) {
			together = append(together, group.Name)
		} else {
			others = append(others, group.Name)
		}
	}
	return together, others
}

// NewGang makes the PodGroup of a JobSet in its present attempt, without what the server sets in a new object.
func NewGang(js *jobsetv1.JobSet) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: GangName(js, js.Status.Restarts), Namespace: js.Namespace, Labels: map[string]string{jobsetv1.JobSetNameKey: js.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(js, jobsetv1.GroupVersion.WithKind("JobSet"))},
		},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(max(1, GangPods(js)))}, // which validateGang bounds
		}},
	}
}

// joinGang has the pods of a Job start together with the others of its JobSet.
func joinGang(js *jobsetv1.JobSet, group *jobsetv1.ReplicatedJob, pod *corev1.PodSpec) {
	if InGang(js, group) {
		pod.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(GangName(js, js.Status.Restarts))}
	}
}

// validateGang checks GangAnnotation. old are the annotations so far, nil for a new JobSet.
func validateGang(js *jobsetv1.JobSet, old map[string]string, path *field.Path) (errs field.ErrorList) {
	text, has := js.Annotations[GangAnnotation]
	was, had := old[GangAnnotation]
	path = path.Key(GangAnnotation)
	switch {
	case old != nil && (has != had || text != was):
		return field.ErrorList{field.Forbidden(path, "cannot be changed: its Jobs are made by it")}
	case has && text != "true":
		return field.ErrorList{field.Invalid(path, text, `must be "true": all pods that begin with the JobSet start together`)}
	case !has:
		return nil
	case GangPods(js) > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, text, fmt.Sprintf("no more than %d pods can start together", math.MaxInt32))}
	}
	for i := range js.Spec.ReplicatedJobs {
		spec := &js.Spec.ReplicatedJobs[i].Template.Spec
		at := field.NewPath("spec", "replicatedJobs").Index(i).Child("template", "spec")
		if !InGang(js, &js.Spec.ReplicatedJobs[i]) {
			continue
		}
		if spec.Scheduling != nil {
			errs = append(errs, field.Forbidden(at.Child("scheduling"), "the annotation "+GangAnnotation+" has its pods start with those of the other groups"))
		}
		if spec.Template.Spec.SchedulingGroup != nil {
			errs = append(errs, field.Forbidden(at.Child("template", "spec", "schedulingGroup"), "the annotation "+GangAnnotation+" sets it"))
		}
	}
	return errs
}

// gangWarnings say of a gang what may not be meant.
func gangWarnings(js *jobsetv1.JobSet) (all []string) {
	if !Gang(js) {
		return nil
	}
	at := fmt.Sprintf("metadata.annotations[%s]: ", GangAnnotation)
	together, others := GangGroups(js)
	if GangPods(js) < 2 {
		all = append(all, at+"has no effect: no two pods begin with the JobSet")
	}
	if len(others) > 0 {
		all = append(all, at+fmt.Sprintf("the pods of %s start together; those of %s wait for other groups, and start one by one",
			listed(together), listed(others)))
	}
	return all
}

// listed names the first few.
func listed(names []string) string {
	const shown = 5
	if n := len(names) - shown; n > 0 {
		return strings.Join(names[:shown], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}
