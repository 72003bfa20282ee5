package jobset

import (
	"crypto/sha1" //nolint:gosec // a label that clients know, no secret
	"encoding/hex"
	"maps"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
)

// NewJob makes a Job of a JobSet's group, in the present attempt, without what the server sets in a new object.
func NewJob(js *jobsetv1.JobSet, group *jobsetv1.ReplicatedJob, index int) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: JobName(js.Name, group.Name, index), Namespace: js.Namespace,
			Labels: maps.Clone(group.Template.Labels), Annotations: maps.Clone(group.Template.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(js, jobsetv1.GroupVersion.WithKind("JobSet"))},
		},
		Spec: *group.Template.Spec.DeepCopy(),
	}
	marks := marksOf(js, group, index)
	placement := placementOf(js, group)
	for _, m := range []*metav1.ObjectMeta{&job.ObjectMeta, &job.Spec.Template.ObjectMeta} {
		m.Labels, m.Annotations = with(m.Labels, marks), with(with(m.Annotations, marks), placement)
	}
	if HostNames(js) {
		job.Spec.Template.Spec.Subdomain = Subdomain(js)
	}
	job.Spec.Suspend = ptr.To(Suspended(js))
	if since, paused := Paused(js); paused {
		job.Annotations[batch.PausedAnnotation] = since
	} else {
		delete(job.Annotations, batch.PausedAnnotation)
	}
	addClaims(js, &job.Spec.Template.Spec)
	joinGang(js, group, &job.Spec.Template.Spec)
	return job
}

func with(m, more map[string]string) map[string]string {
	if m == nil {
		m = make(map[string]string, len(more))
	}
	maps.Copy(m, more)
	return m
}

// marksOf returns the labels of a Job and its pods, which are their annotations too.
func marksOf(js *jobsetv1.JobSet, group *jobsetv1.ReplicatedJob, index int) map[string]string {
	var before, all, beforeInGroup, inGroup int
	passed := false
	for i := range js.Spec.ReplicatedJobs {
		other := &js.Spec.ReplicatedJobs[i]
		passed = passed || other.Name == group.Name
		replicas := int(other.Replicas)
		all += replicas
		if !passed {
			before += replicas
		}
		if other.GroupName == group.GroupName {
			inGroup += replicas
			if !passed {
				beforeInGroup += replicas
			}
		}
	}
	key := sha1.Sum([]byte(js.Namespace + "/" + JobName(js.Name, group.Name, index))) //nolint:gosec // see above
	marks := map[string]string{
		jobsetv1.JobSetNameKey:         js.Name,
		jobsetv1.JobSetUIDKey:          string(js.UID),
		jobsetv1.ReplicatedJobNameKey:  group.Name,
		jobsetv1.ReplicatedJobReplicas: strconv.Itoa(int(group.Replicas)),
		jobsetv1.GlobalReplicasKey:     strconv.Itoa(all),
		jobsetv1.JobIndexKey:           strconv.Itoa(index),
		jobsetv1.JobGlobalIndexKey:     strconv.Itoa(before + index),
		jobsetv1.JobKey:                hex.EncodeToString(key[:]),
		jobsetv1.GroupNameKey:          group.GroupName,
		jobsetv1.GroupReplicasKey:      strconv.Itoa(inGroup),
		jobsetv1.JobGroupIndexKey:      strconv.Itoa(beforeInGroup + index),
		RestartAttemptKey:              strconv.Itoa(int(js.Status.Restarts)),
	}
	if js.Spec.Coordinator != nil {
		marks[jobsetv1.CoordinatorKey] = Coordinator(js)
	}
	return marks
}

// placementOf returns the annotations that ask for a part of the cluster for each Job alone. They are kept, and mean nothing on one
// node: nothing is added to the pods that would keep them from it.
func placementOf(js *jobsetv1.JobSet, group *jobsetv1.ReplicatedJob) map[string]string {
	kept := map[string]string{}
	for _, annotations := range []map[string]string{js.Annotations, group.Template.Annotations} {
		topology, ok := annotations[jobsetv1.ExclusiveKey]
		if !ok {
			continue
		}
		kept[jobsetv1.ExclusiveKey] = topology
		if strategy, ok := annotations[jobsetv1.NodeSelectorStrategyKey]; ok {
			kept[jobsetv1.NodeSelectorStrategyKey] = strategy
		}
	}
	return kept
}

// addClaims gives pods that mount them the claims of the JobSet.
func addClaims(js *jobsetv1.JobSet, spec *corev1.PodSpec) {
	for _, policy := range js.Spec.VolumeClaimPolicies {
		for i := range policy.Templates {
			name := policy.Templates[i].Name
			if !mounts(spec, name) {
				continue
			}
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: ClaimName(js.Name, name)},
			}})
		}
	}
}

// mounts reports whether a container of a pod mounts a volume of that name.
func mounts(spec *corev1.PodSpec, volume string) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, m := range containers[i].VolumeMounts {
				if m.Name == volume {
					return true
				}
			}
		}
	}
	return false
}

// NewClaim makes a claim of a JobSet.
func NewClaim(js *jobsetv1.JobSet, policy *jobsetv1.VolumeClaimPolicy, template *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: ClaimName(js.Name, template.Name), Namespace: js.Namespace,
			Labels:      with(maps.Clone(template.Labels), map[string]string{jobsetv1.JobSetNameKey: js.Name}),
			Annotations: maps.Clone(template.Annotations),
		},
		Spec: *template.Spec.DeepCopy(),
	}
	if !retained(policy) {
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(js, jobsetv1.GroupVersion.WithKind("JobSet"))}
	}
	return claim
}

// retained reports whether claims stay when their JobSet is deleted.
func retained(policy *jobsetv1.VolumeClaimPolicy) bool {
	return policy.RetentionPolicy != nil &&
		ptr.Deref(policy.RetentionPolicy.WhenDeleted, jobsetv1.RetentionPolicyDelete) == jobsetv1.RetentionPolicyRetain
}

// NewService makes the Service by which the pods of a JobSet find each other.
func NewService(js *jobsetv1.JobSet) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: Subdomain(js), Namespace: js.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(js, jobsetv1.GroupVersion.WithKind("JobSet"))},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{jobsetv1.JobSetNameKey: js.Name},
			PublishNotReadyAddresses: js.Spec.Network == nil || ptr.Deref(js.Spec.Network.PublishNotReadyAddresses, true),
		},
	}
}
