package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// TestEventsAboutImages: in the words of a kubelet. What is about the image of a volume names no container.
func TestEventsAboutImages(t *testing.T) {
	const c = "spec.containers{c}"
	normal := func(reason, message, path string) Event { return Event{corev1.EventTypeNormal, reason, message, path} }
	warning := func(reason, message, path string) Event { return Event{corev1.EventTypeWarning, reason, message, path} }
	for name, tc := range map[string]struct {
		o    duty.Observation
		want []Event
	}{
		"it is pulled": {duty.Observation{What: duty.Pulling}, []Event{normal("Pulling", `Pulling image "busybox"`, c)}},
		"without its secrets": {duty.Observation{What: duty.Pulling, Message: "x, y"}, []Event{
			warning("FailedToRetrieveImagePullSecret",
				"Unable to retrieve some image pull secrets (x, y); attempting to pull the image may not succeed.", ""),
			normal("Pulling", `Pulling image "busybox"`, c),
		}},
		"it was pulled": {duty.Observation{What: duty.Pulled, Took: time.Second, Image: runtime.Image{Size: 7}}, []Event{
			normal("Pulled", `Successfully pulled image "busybox" in 1s (1s including waiting). Image size: 7 bytes.`, c),
		}},
		"it was there": {duty.Observation{What: duty.Pulled, Image: runtime.Image{Engine: "docker"}}, []Event{
			normal("Pulled", `Container image "busybox" already present on machine and can be accessed by the pod`, c),
		}},
		"that of a volume": {duty.Observation{What: duty.Pulling, Volume: "v"}, []Event{normal("Pulling", `Pulling image "data:1"`, "")}},
		"that of a volume fails": {duty.Observation{What: duty.StartFailed, Volume: "v", Reason: duty.ErrImagePull, Message: "no"}, []Event{
			warning("Failed", `Failed to pull image "data:1": no`, ""), warning("Failed", "Error: ErrImagePull", c),
		}},
		"its name is no name": {duty.Observation{What: duty.StartFailed, Reason: duty.InvalidImageName, Message: "no"}, []Event{
			warning("InspectFailed", "no", c), warning("Failed", "Error: InvalidImageName", c),
		}},
		"of another attempt": {duty.Observation{What: duty.Pulling, Attempt: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyOnFailure, "c")
			pod.Spec.Volumes = []corev1.Volume{
				{Name: "u"}, {Name: "w", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "other:1"}}},
				{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "data:1"}}},
			}
			l := newLife(t, pod)
			l.turn()
			tc.o.Container = "c"
			if l.turn(tc.o); !slices.Equal(l.events, tc.want) {
				t.Errorf("events %+v, want %+v", l.events, tc.want)
			}
		})
	}
	t.Run("of a container that runs by now", func(t *testing.T) {
		l := newLife(t, newPod(corev1.RestartPolicyOnFailure, "c"))
		l.turn()
		l.turn(l.started("c", 0))
		l.events = nil
		if l.turn(duty.Observation{What: duty.Pulling, Container: "c", Attempt: 1}); len(l.events) > 0 {
			t.Errorf("events %+v", l.events)
		}
	})
}
