package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/conditions"
)

const (
	// PodPaused is the condition of a pod whose containers are frozen, since its Job is paused (batch.PausedAnnotation). Its CPU
	// requests count for nothing while it is True, and its deadline stands still. It is False with the reason Pausing before they are.
	PodPaused corev1.PodConditionType = "jobd.dev/Paused"
	// PausedForAnnotation of a pod is for how long it was paused since it started (PodStatus.StartTime), without the pause that
	// PodPaused tells of. jobd writes it: what clients send is ignored, as for the status.
	PausedForAnnotation = "jobd.dev/paused-for"
)

// PausedSince returns since when the containers of a pod are frozen; false if they are not.
func PausedSince(p *corev1.Pod) (time.Time, bool) {
	c := conditions.Find(p.Status.Conditions, PodPaused)
	if c == nil || c.Status != corev1.ConditionTrue {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// PausedFor returns for how long a pod was paused since it started, without the pause that it is in.
func PausedFor(p *corev1.Pod) time.Duration {
	text, ok := p.Annotations[PausedForAnnotation]
	if !ok {
		return 0
	}
	d, _ := time.ParseDuration(text)
	return max(0, d)
}

// PausedUntil returns for how long a pod was paused since it started, until a time, with the pause that it is in.
func PausedUntil(p *corev1.Pod, t time.Time) time.Duration {
	all := PausedFor(p)
	if since, paused := PausedSince(p); paused {
		all += max(0, t.Sub(since))
	}
	return all
}

// keepPausedFor keeps PausedForAnnotation as it is, which clients do not write.
func keepPausedFor(pod, old *corev1.Pod) {
	if was, ok := old.Annotations[PausedForAnnotation]; ok {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, PausedForAnnotation, was)
	} else {
		delete(pod.Annotations, PausedForAnnotation)
	}
}
