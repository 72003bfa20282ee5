package pod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

// pull records events about the image of a launch.
func (f *folder) pull(c container, o duty.Observation) {
	if o.Attempt != c.next() || c.running() {
		return
	}
	image, normal := f.imageOf(c, o.Volume), f.aboutImage(c, o.Volume, corev1.EventTypeNormal)
	switch {
	case o.What == duty.Pulling:
		if o.Message != "" {
			f.events = append(f.events, Event{
				Type: corev1.EventTypeWarning, Reason: "FailedToRetrieveImagePullSecret",
				Message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); "+
					"attempting to pull the image may not succeed.", o.Message),
			})
		}
		normal("Pulling", fmt.Sprintf("Pulling image %q", image))
	case o.Took > 0 && o.Image.Engine != "":
		took := o.Took.Round(time.Millisecond)
		normal("Pulled", fmt.Sprintf("Image %q taken from %s in %s (%s including waiting). Image size: %d bytes.",
			image, o.Image.Engine, took, took, o.Image.Size))
	case o.Took > 0:
		took := o.Took.Round(time.Millisecond)
		normal("Pulled", fmt.Sprintf("Successfully pulled image %q in %s (%s including waiting). Image size: %d bytes.",
			image, took, took, o.Image.Size))
	default:
		normal("Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", image))
	}
}

// imageOf returns the name of a container's image, or of that of a volume that it mounts.
func (f *folder) imageOf(c container, volume string) string {
	if volume == "" {
		return c.spec.Image
	}
	for _, v := range f.pod.Spec.Volumes {
		if v.Name == volume && v.Image != nil {
			return v.Image.Reference
		}
	}
	return ""
}

// aboutImage returns what records an event about an image: one of a volume is the pod's, and not that of a container.
func (f *folder) aboutImage(c container, volume, kind string) func(reason, message string) {
	path := c.fieldPath()
	if volume != "" {
		path = ""
	}
	return func(reason, message string) { f.events = append(f.events, Event{kind, reason, message, path}) }
}

// startFailedEvents records why a launch has failed, as a kubelet does.
func (f *folder) startFailedEvents(c container, o duty.Observation) {
	warning := f.aboutImage(c, o.Volume, corev1.EventTypeWarning)
	switch o.Reason {
	case duty.ErrImagePull:
		warning("Failed", fmt.Sprintf("Failed to pull image %q: %s", f.imageOf(c, o.Volume), o.Message))
	case duty.ErrImageNeverPull:
		warning(duty.ErrImageNeverPull, o.Message)
	case duty.InvalidImageName:
		warning("InspectFailed", o.Message)
	default:
		f.warning(c, "Failed", "Error: "+o.Message)
		return
	}
	f.warning(c, "Failed", "Error: "+o.Reason)
}
