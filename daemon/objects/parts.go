package objects

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/scheme"
)

// Parts of stored objects. Reading many objects often needs only these parts, and decoding the rest would cost far
// more.
var (
	// JobEnd says whether a Job still needs decisions.
	JobEnd = scheme.FieldsOf[batchv1.Job]("metadata.deletionTimestamp", "spec.ttlSecondsAfterFinished",
		"status.conditions")
	// PodEnd says whether a pod still needs decisions.
	PodEnd = scheme.FieldsOf[corev1.Pod](
		"metadata.deletionTimestamp", "metadata.finalizers", "spec.nodeName", "status.phase", "status.conditions",
	)
	// PodOnNode says whether a pod runs here.
	PodOnNode = scheme.FieldsOf[corev1.Pod]("spec.nodeName", "status.phase")
	// PodClaimed says which Job has a pod, and which may adopt it.
	PodClaimed = scheme.FieldsOf[corev1.Pod]("metadata.labels", "metadata.ownerReferences")
	// PodImages says which images a pod uses.
	PodImages = scheme.FieldsOf[corev1.Pod]("spec.containers", "spec.initContainers", "spec.ephemeralContainers",
		"spec.volumes", "status.phase")
	// JobImages says which images the pods of a Job will use, and whether there will be any.
	JobImages = scheme.FieldsOf[batchv1.Job]("metadata.name", "metadata.namespace", "spec.template", "status.conditions")
	// CronJobImages says which images the pods of a CronJob will use.
	CronJobImages = scheme.FieldsOf[batchv1.CronJob]("metadata.name", "metadata.namespace", "spec.jobTemplate")
	// PodVolumes says which claims a pod uses, and whether it runs here.
	PodVolumes = scheme.FieldsOf[corev1.Pod]("metadata.name", "metadata.namespace", "metadata.uid", "spec.volumes",
		"spec.nodeName")
	// Finalizers says what holds an object of any kind.
	Finalizers = scheme.FieldsOf[metav1.PartialObjectMetadata]("metadata.finalizers")
)
