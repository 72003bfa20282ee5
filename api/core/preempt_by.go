package core

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/conditions"
)

const (
	// PreemptByAnnotation of a Job says what becomes of its pods when those of a higher priority displace them: PreemptByEviction, as in a
	// cluster, or PreemptByPause. Of a namespace it says so of all its Jobs that say nothing. It means nothing to a cluster.
	PreemptByAnnotation = "jobd.dev/preempt-by"

	// PodDisplaced is the condition of a pod that is paused since others of a higher priority have its CPU: True from the decision on,
	// before its containers are frozen (PodPaused), until it was decided that they go on.
	PodDisplaced corev1.PodConditionType = "jobd.dev/Displaced"
	// ReasonPreempted is why a pod is displaced, and its containers are frozen for that.
	ReasonPreempted = "Preempted"
)

// Values of PreemptByAnnotation.
const (
	PreemptByEviction = "evict" // the pod ends, and its Job makes another one
	PreemptByPause    = "pause" // its containers are frozen until their CPU is free again, where that makes enough room
)

var waysToPreempt = []string{PreemptByEviction, PreemptByPause}

// ValidatePreemptBy checks the annotation of a Job, of the Jobs of a CronJob, or of a namespace.
func ValidatePreemptBy(annotations map[string]string, path *field.Path) field.ErrorList {
	if value, ok := annotations[PreemptByAnnotation]; ok && !slices.Contains(waysToPreempt, value) {
		return field.ErrorList{field.NotSupported(path.Key(PreemptByAnnotation), value, waysToPreempt)}
	}
	return nil
}

// DisplacedSince returns since when a pod is paused for others; false if it is not.
func DisplacedSince(p *corev1.Pod) (time.Time, bool) {
	c := conditions.Find(p.Status.Conditions, PodDisplaced)
	if c == nil || c.Status != corev1.ConditionTrue {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}
