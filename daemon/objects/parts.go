package objects

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/scheme"
)

// Parts of stored objects. Most of what is looked at in bulk needs no more of each object, and decoding the rest costs far
// more.
var (
	// JobEnd says whether anything is still to be decided for a Job.
	JobEnd = scheme.FieldsOf[batchv1.Job]("metadata.deletionTimestamp", "spec.ttlSecondsAfterFinished", "status.conditions")
	// PodEnd says whether anything is still to be decided for a pod.
	PodEnd = scheme.FieldsOf[corev1.Pod](
		"metadata.deletionTimestamp", "metadata.finalizers", "spec.nodeName", "status.phase", "status.conditions",
	)
	// PodOnNode says whether a pod runs here.
	PodOnNode = scheme.FieldsOf[corev1.Pod]("spec.nodeName", "status.phase")
	// PodImages says which images a pod uses.
	PodImages = scheme.FieldsOf[corev1.Pod]("spec.containers", "spec.initContainers", "status.phase")
	// Finalizers says who holds an object of any kind.
	Finalizers = scheme.FieldsOf[metav1.PartialObjectMetadata]("metadata.finalizers")
)
