package claim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/clusters"
)

// A pod that only shows one of a cluster neither has claims made here, nor keeps those here from going.
func TestAPodOfAClusterUsesNoClaims(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "prod", Volumes: []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}}}
	if uses := UsesOf(p); len(uses) != 2 {
		t.Errorf("a pod of another node: %+v", uses)
	}
	p.Spec.SchedulerName = clusters.Scheduler("prod")
	if uses := UsesOf(p); len(uses) != 0 {
		t.Errorf("got %+v", uses)
	}
}
