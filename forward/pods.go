package forward

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/podspec"
)

// Mirror returns the pod here that shows one of the Job there. It names the cluster as its node, so nothing here starts it, and lacks all for
// which there would have to be an object here.
func Mirror(l *batchv1.Job, there *corev1.Pod, cluster string) *corev1.Pod {
	t := l.Spec.Template.DeepCopy()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: there.Name, Namespace: l.Namespace, Labels: maps.Clone(there.Labels), Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(l, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: t.Spec,
	}
	maps.DeleteFunc(p.Labels, func(name, _ string) bool { return clusters.IsMark(name) })
	for _, name := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		if _, ok := p.Labels[name]; ok {
			p.Labels[name] = string(l.UID)
		}
	}
	if index, ok := there.Annotations[batchv1.JobCompletionIndexAnnotation]; ok {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1.JobCompletionIndexAnnotation, index)
	}
	s := &p.Spec
	s.NodeName, s.SchedulerName = cluster, clusters.Scheduler(cluster)
	s.ServiceAccountName, s.DeprecatedServiceAccount, s.PriorityClassName, s.Priority = "", "", "", nil
	s.RuntimeClassName, s.Overhead, s.ImagePullSecrets, s.ResourceClaims, s.SchedulingGates = nil, nil, nil, nil, nil
	s.NodeSelector, s.Affinity, s.TopologySpreadConstraints, s.SchedulingGroup = nil, nil, nil, nil
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			list[i].Resources.Claims = nil
		}
	}
	return p
}

// mirrored returns the pod here with the status of the one there, and whether it differs.
func mirrored(here, there *corev1.Pod) (*corev1.Pod, bool) {
	p := here.DeepCopy()
	there.Status.DeepCopyInto(&p.Status)
	s := &p.Status
	s.NominatedNodeName, s.QOSClass, s.ObservedGeneration = "", here.Status.QOSClass, here.Status.ObservedGeneration
	// Only the server here says of a pod whether it is bound.
	scheduled := func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }
	s.Conditions = slices.DeleteFunc(s.Conditions, scheduled)
	if i := slices.IndexFunc(here.Status.Conditions, scheduled); i >= 0 {
		s.Conditions = slices.Insert(s.Conditions, min(i, len(s.Conditions)), here.Status.Conditions[i])
	}
	return p, !equality.Semantic.DeepEqual(p.Status, here.Status)
}

// hasEnded reports whether a container of a pod has ended, or was started again.
func hasEnded(p *corev1.Pod) bool {
	for s := range podspec.Statuses(p) {
		if s.State.Terminated != nil || s.RestartCount > 0 {
			return true
		}
	}
	return false
}

// shows reports whether a pod here shows one of a cluster, and isMirror whether that is one of a Job.
func shows(p *corev1.Pod, cluster string) bool {
	return clusters.Shown(p) && p.Spec.NodeName == cluster
}

func isMirror(p *corev1.Pod, of *batchv1.Job, cluster string) bool {
	return shows(p, cluster) && metav1.IsControlledBy(p, of)
}
