package pod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pull records events about the image of a launch.
func (f *folder) pull(c container, o Observation) {
	if o.Attempt != c.next() || c.running() {
		return
	}
	switch {
	case o.What == Pulling:
		if o.Message != "" {
			f.events = append(f.events, Event{
				Type: corev1.EventTypeWarning, Reason: "FailedToRetrieveImagePullSecret",
				Message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); "+
					"attempting to pull the image may not succeed.", o.Message),
			})
		}
		f.normal(c, "Pulling", fmt.Sprintf("Pulling image %q", c.spec.Image))
	case o.Took > 0:
		took := o.Took.Round(time.Millisecond)
		f.normal(c, "Pulled", fmt.Sprintf("Successfully pulled image %q in %s (%s including waiting). Image size: %d bytes.",
			c.spec.Image, took, took, o.Image.Size))
	default:
		f.normal(c, "Pulled",
			fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.spec.Image))
	}
}

// startFailedEvents records why a launch has failed, as a kubelet does.
func (f *folder) startFailedEvents(c container, o Observation) {
	switch o.Reason {
	case ErrImagePull:
		f.warning(c, "Failed", fmt.Sprintf("Failed to pull image %q: %s", c.spec.Image, o.Message))
	case ErrImageNeverPull:
		f.warning(c, ErrImageNeverPull, o.Message)
	case InvalidImageName:
		f.warning(c, "InspectFailed", o.Message)
	default:
		f.warning(c, "Failed", "Error: "+o.Message)
		return
	}
	f.warning(c, "Failed", "Error: "+o.Reason)
}
